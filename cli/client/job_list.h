/*
 * cli/client/job_list.h - the list of jobs of the aggregator, for the commands that show or follow
 * jobs. docs/reference/http.md describes its members.
 *
 * Threads: one.
 */
#ifndef MRD_CLI_CLIENT_JOB_LIST_H
#define MRD_CLI_CLIENT_JOB_LIST_H

#include "cli/client/client.h"

#define MRD_JOB_LIST_TEXT 512

/* Gets the list of jobs. With a `job` that is not NULL, only jobs with this number, name or id. */
mrd_err mrd_job_list_get(mrd_client *client, const char *job, mrd_json **ret_doc, mrd_why *why);
/* Returns the exit status for a list: MRD_EXIT_STANDS if a job stands still, MRD_EXIT_SLOW if a job
 * is slow, MRD_EXIT_OK otherwise. */
int mrd_job_list_status(const mrd_json *doc);
/* Returns true if the state of the job is this word, such as "standing". */
bool mrd_job_list_is(const mrd_json *job, const char *state);
/* Returns the verdict that explains the state of the job, or NULL. */
const mrd_json *mrd_job_list_verdict(const mrd_json *job);
/* Writes the verdict about the job as one verdict_text, or "" if there is none. Returns `text`. The
 * text is not trusted. */
char *mrd_job_list_text(const mrd_json *job, char text[MRD_JOB_LIST_TEXT]);

#endif
