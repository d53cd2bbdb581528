/* Helper functions for the threads that receive and verify artifacts: the table of uploads, paths,
 * and answers to requests. */
#include "aggregator/store/artifacts_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "aggregator/core/common/text.h"
#include "aggregator/core/model/files.h"

char *
mrd_artifact_path(const mrd_artifacts *artifacts, const char *sha256, const char *suffix)
{
    return mrd_session_store_path(artifacts->o.store, NULL, "artifacts/%s%s", sha256, suffix);
}

mrd_err
mrd_artifact_fail(mrd_err err, char text[MRD_TEXT_MAX], const char *what)
{
    mrd_text_set(text, MRD_TEXT_MAX, what);
    return err;
}

mrd_err
mrd_artifact_fail_io(char text[MRD_TEXT_MAX], const char *path)
{
    int sys = errno;

    snprintf(text, MRD_TEXT_MAX, "cannot write %.160s: %s", path, strerror(sys));
    return sys == ENOSPC || sys == EDQUOT || sys == EFBIG ? MRD_FULL : MRD_IO;
}

void
mrd_artifact_reply(const mrd_artifacts *artifacts, mrd_server_request *request, uint8_t type,
                   const void *message)
{
    mrd_frame frame = { .type = type };
    mrd_buf reply = { 0 };

    if (mrd_msg_pack(&frame, message, &reply, NULL) == MRD_OK)
        mrd_server_reply(artifacts->o.server, request, (mrd_bytes){ reply.p, reply.len });
    else
        mrd_server_drop(artifacts->o.server, request);
    mrd_buf_fini(&reply);
}

void
mrd_artifact_ack(Mrd__Ack *ack, mrd_err err, char *text)
{
    ack->err = (uint32_t) err;
    ack->message = text;
    if (err == MRD_FULL || err == MRD_IO || err == MRD_AGAIN || err == MRD_NOMEM) {
        ack->status = MRD__ACK_STATUS__ACK_NOT_STORED;
        ack->retry_after_ms = 1000;
    } else if (err != MRD_OK) {
        ack->status = MRD__ACK_STATUS__ACK_REFUSED;
    }
}

/* ---- The table of uploads ---- */

void
mrd_upload_forget(mrd_upload *upload)
{
    mrd_sha256_free(upload->sum);
    *upload = (mrd_upload){ 0 };
}

mrd_upload *
mrd_artifact_upload(const mrd_artifacts *artifacts, const char *sha256)
{
    for (size_t i = 0; i < MRD_UPLOADS_MAX; i++) {
        if (strcmp(artifacts->uploads[i].sha256, sha256) == 0)
            return &artifacts->uploads[i];
    }
    return NULL;
}
