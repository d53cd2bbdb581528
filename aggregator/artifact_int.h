/* aggregator/artifact_int.h - inside of artifacts: artifact.c (what agents say, on the ingest
 * thread), artifact_job.c (what needs the disk, on a thread of its own). */
#ifndef MRD_AGGREGATOR_ARTIFACT_INT_H
#define MRD_AGGREGATOR_ARTIFACT_INT_H

#include "aggregator/hub.h"
#include "base/hash.h"

/* A file that is arriving. Least recently used ones are forgotten; the agent offers again. Guarded
 * by the hub's lock. */
typedef struct upload {
    char sha256[65];
    uint64_t size, have;
    mrd_sha256 *sum; /* of the first `have` bytes; NULL: not known, hash the file at the end */
    int64_t used_ns;
    uint64_t owner;   /* agent key: only that node's pieces count */
    int64_t began_ns; /* when it became the owner */
    bool busy; /* all bytes are there, and the worker proves them */
} upload;

upload *artifact_upload(const hub *h, const char *sha256); /* NULL: none */
void artifact_upload_forget(upload *u);
/* <store>/artifacts/<sha256><suffix>; free it. NULL without memory. */
char *artifact_path(const hub *h, const char *sha256, const char *suffix);
mrd_err artifact_fail(mrd_err err, char text[HUB_TEXT_MAX], const char *what);
mrd_err artifact_fail_io(char text[HUB_TEXT_MAX], const char *path); /* by errno */
/* <session>/<instance>_pid_<pid>/<name>: a link, so that the vendor's viewer finds its layout. */
void artifact_link(hub *h, const hub_session *s, const hub_artifact *a);

#endif
