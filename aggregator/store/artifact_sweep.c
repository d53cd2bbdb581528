/* Removes files from <store>/artifacts that no session lists and that no node is sending. */
#include "aggregator/store/artifacts_int.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregator/core/common/text.h"
#include "aggregator/core/model/files.h"
#include "base/conf/log.h"

/* An incomplete file that no session lists is kept this long after its last bytes arrived, so that
 * its agent can reconnect and continue. */
#define UPLOAD_LATELY (600 * MRD_SEC)

/* Returns true if the file is being verified, or if a node sent bytes of the file recently. */
static bool
is_busy(const mrd_artifacts *artifacts, const char *sha256)
{
    const mrd_upload *upload = mrd_artifact_upload(artifacts, sha256);

    return upload != NULL && (upload->busy || mrd_local_now().ns - upload->used.ns < UPLOAD_LATELY);
}

/* Returns true if the file can be removed, because no session lists it. `part` means that the file
 * is incomplete. Such a file is kept for a while after its last change, because the node may
 * continue to send it. */
static bool
is_rubbish(const mrd_artifacts *artifacts, const char *sha256, bool part, const struct stat *st)
{
    if (is_busy(artifacts, sha256))
        return false;
    if (part && mrd_wall_now().ns - st->st_mtim.tv_sec * MRD_SEC <= UPLOAD_LATELY)
        return false;
    return !artifacts->o.listed(artifacts->o.self, sha256, part);
}

static void
forget(const mrd_artifacts *artifacts, const char *sha256)
{
    mrd_upload *upload = mrd_artifact_upload(artifacts, sha256);

    /* the entry of the upload is freed, so the node that sent the file must announce it again */
    if (upload != NULL)
        mrd_upload_forget(upload);
    artifacts->o.grown(artifacts->o.self, sha256, 0, 0);
}

static bool
sweep_entry(const mrd_artifacts *artifacts, const char *name)
{
    bool part = strcmp(name + strcspn(name, "."), ".part") == 0, gone = false;
    char sha256[65], *from, *to;
    struct stat st;

    mrd_text_set(sha256, sizeof(sha256), name);
    if (!mrd_hash_is_valid(sha256) || (!part && name[64] != '\0'))
        return false; /* this file name does not belong to an artifact, so the file is kept */
    from = mrd_session_store_path(artifacts->o.store, NULL, "artifacts/%s", name);
    to = mrd_session_store_path(artifacts->o.store, NULL, "removed/%s", name);
    if (from != NULL && to != NULL && lstat(from, &st) == 0 && S_ISREG(st.st_mode) &&
        is_rubbish(artifacts, sha256, part, &st) && (rename(from, to) == 0 || unlink(from) == 0)) {
        gone = true;
        if (part)
            forget(artifacts, sha256);
        artifacts->o.removed(artifacts->o.self, part);
        mrd_log(MRD_LOG_DEBUG, "AGG-ARTIFACT-REMOVED",
                "An artifact was removed because no session lists it: name=%s bytes=%lld", name,
                (long long) st.st_size);
    }
    free(from);
    free(to);
    return gone;
}

void
mrd_artifact_sweep(void *self, void *none)
{
    mrd_artifacts *artifacts = self;
    char *path = mrd_session_store_path(artifacts->o.store, NULL, "artifacts");
    DIR *dir = path == NULL ? NULL : opendir(path);
    struct dirent *entry;

    (void) none;
    mrd_artifacts_end_uploads(artifacts);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (__atomic_load_n(&artifacts->closing, __ATOMIC_RELAXED))
            break;
        (void) sweep_entry(artifacts, entry->d_name);
    }
    if (dir != NULL)
        closedir(dir);
    free(path);
}
