#include "cli/client/job_list.h"

#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

mrd_err
mrd_job_list_get(mrd_client *client, const char *job, mrd_json **ret_doc, mrd_why *why)
{
    mrd_buf path = { 0 };
    mrd_err err;

    mrd_buf_text(&path, "/api/v1/jobs");
    if (job != NULL) {
        mrd_buf_text(&path, "?job=");
        mrd_client_escape(&path, job);
    }
    err = path.err != MRD_OK
              ? mrd_why_set(why, path.err, 0, "path")
              : mrd_client_call(client, "GET", mrd_buf_cstr(&path), NULL, ret_doc, why);
    mrd_buf_fini(&path);
    return err;
}

bool
mrd_job_list_is(const mrd_json *job, const char *state)
{
    return strcmp(mrd_json_str(job, "state", ""), state) == 0;
}

int
mrd_job_list_status(const mrd_json *doc)
{
    const mrd_json *list = mrd_json_get(doc, "jobs");
    int status = MRD_EXIT_OK;

    for (size_t i = 0; i < mrd_json_size(list); i++) {
        if (mrd_job_list_is(mrd_json_at(list, i), "standing"))
            return MRD_EXIT_STANDS;
        if (mrd_job_list_is(mrd_json_at(list, i), "slow"))
            status = MRD_EXIT_SLOW;
    }
    return status;
}

const mrd_json *
mrd_job_list_verdict(const mrd_json *job)
{
    return mrd_json_get(job, mrd_job_list_is(job, "standing") ? "hang"
                             : mrd_job_list_is(job, "slow")   ? "slow"
                                                              : "");
}

char *
mrd_job_list_text(const mrd_json *job, char text[MRD_JOB_LIST_TEXT])
{
    const mrd_json *verdict = mrd_job_list_verdict(job);

    text[0] = '\0';
    if (verdict != NULL)
        snprintf(text, MRD_JOB_LIST_TEXT, "%s: %s", mrd_json_str(verdict, "verdict", "?"),
                 mrd_json_str(verdict, "reason", ""));
    return text;
}
