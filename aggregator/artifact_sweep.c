/* Removes from <store>/artifacts what no session lists and nobody is sending. The manifests are the
 * truth: a file that none of them lists is rubbish, whoever left it there. */
#include "aggregator/artifacts_int.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregator/core/files.h"
#include "aggregator/core/text.h"
#include "base/log.h"

#define UPLOAD_LATELY (600 * MRD_SEC) /* an agent that was cut off comes back within this */

/* It is being proven, or bytes of it came lately. */
static bool
is_busy(const mrd_artifacts *a, const char *sha256)
{
    const mrd_upload *u = mrd_artifact_upload(a, sha256);

    return u != NULL && (u->busy || mrd_local_now().ns - u->used.ns < UPLOAD_LATELY);
}

/* Of a file that nobody lists, or of a part: that belongs to whoever is sending it, or may go on.
 */
static bool
is_rubbish(const mrd_artifacts *a, const char *sha256, bool part, const struct stat *st)
{
    if (is_busy(a, sha256))
        return false;
    if (part && mrd_wall_now().ns - st->st_mtim.tv_sec * MRD_SEC <= UPLOAD_LATELY)
        return false;
    return !a->o.listed(a->o.self, sha256, part);
}

static void
forget(const mrd_artifacts *a, const char *sha256)
{
    mrd_upload *u = mrd_artifact_upload(a, sha256);

    if (u != NULL) /* who sent it is to announce it again */
        mrd_upload_forget(u);
    a->o.grown(a->o.self, sha256, 0, 0);
}

static bool
sweep_entry(const mrd_artifacts *a, const char *name)
{
    bool part = strcmp(name + strcspn(name, "."), ".part") == 0, gone = false;
    char sha256[65], *from, *to;
    struct stat st;

    mrd_text_set(sha256, sizeof(sha256), name);
    if (!mrd_hash_is_valid(sha256) || (!part && name[64] != '\0'))
        return false; /* not ours */
    from = mrd_session_store_path(a->o.store, NULL, "artifacts/%s", name);
    to = mrd_session_store_path(a->o.store, NULL, "removed/%s", name);
    if (from != NULL && to != NULL && lstat(from, &st) == 0 && S_ISREG(st.st_mode) &&
        is_rubbish(a, sha256, part, &st) && (rename(from, to) == 0 || unlink(from) == 0)) {
        gone = true;
        if (part)
            forget(a, sha256);
        a->o.removed(a->o.self, part);
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
    mrd_artifacts *a = self;
    char *path = mrd_session_store_path(a->o.store, NULL, "artifacts");
    DIR *dir = path == NULL ? NULL : opendir(path);
    struct dirent *entry;

    (void) none;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (__atomic_load_n(&a->closing, __ATOMIC_RELAXED))
            break;
        (void) sweep_entry(a, entry->d_name);
    }
    if (dir != NULL)
        closedir(dir);
    free(path);
}
