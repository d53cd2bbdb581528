/* Completes received artifacts. Verifies a file's hash, renames the file to its final name, and
 * adds it to <session>/artifacts.log of each session that lists it. After that the agent gets its
 * answer. */
#include "aggregator/store/artifacts_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/conf/log.h"
#include "base/sys/out.h"

#define CHUNK (1u << 20)

/* Hashes the whole file, which may contain bytes that were received before a restart or a disk
 * failure. After a failed sync such bytes may exist only in the page cache, where no later sync
 * writes them. So the function also writes them again in place (see mrd_journal_recover). */
static mrd_err
hash_again(const mrd_artifacts *artifacts, const char *path, char hex[MRD_SHA256_HEX],
           char text[MRD_TEXT_MAX])
{
    mrd_sha256 *sum = mrd_sha256_new();
    uint8_t *chunk = malloc(CHUNK);
    bool again = artifacts->o.store->sync == MRD_SYNC_GROUP;
    int fd = open(path, (again ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    mrd_err err = MRD_OK;
    off_t at = 0;
    ssize_t n = 0;

    if (sum == NULL || chunk == NULL)
        err = mrd_artifact_fail(MRD_NOMEM, text, "out of memory");
    else if (fd < 0)
        err = mrd_artifact_fail_io(text, path);
    while (err == MRD_OK && (n = read(fd, chunk, CHUNK)) > 0) {
        mrd_sha256_add(sum, chunk, (size_t) n);
        errno = EIO;
        if (again && pwrite(fd, chunk, (size_t) n, at) != n)
            err = mrd_artifact_fail_io(text, path);
        at += n;
        if (__atomic_load_n(&artifacts->closing, __ATOMIC_RELAXED))
            err = mrd_artifact_fail(MRD_CLOSED, text, "the aggregator stops");
    }
    if (n < 0)
        err = mrd_artifact_fail_io(text, path);
    if (err == MRD_OK)
        mrd_sha256_hex(sum, hex);
    if (fd >= 0)
        close(fd);
    free(chunk);
    mrd_sha256_free(sum);
    return err;
}

/* Syncs the artifacts directory, so that the file's name is durable. Also syncs the store's
 * directory, because an earlier process may have created the artifacts directory without a sync. */
static mrd_err
sync_names(mrd_artifacts *artifacts, char text[MRD_TEXT_MAX])
{
    const mrd_session_store *store = artifacts->o.store;
    char *dir = mrd_session_store_path(store, NULL, "artifacts");
    mrd_err err = MRD_OK;

    if (dir == NULL)
        return mrd_artifact_fail(MRD_NOMEM, text, "out of memory");
    artifacts->names_unsure = store->sync == MRD_SYNC_GROUP;
    if (artifacts->names_unsure &&
        (mrd_sync_dir(dir, NULL) != MRD_OK || mrd_sync_dir(store->dir, NULL) != MRD_OK))
        err = mrd_artifact_fail_io(text, dir);
    else
        artifacts->names_unsure = false;
    free(dir);
    return err;
}

/* Syncs the bytes of the file. If the sync fails, some bytes may be lost although they can still be
 * read from the page cache. So the function then removes the file, and the agent sends it again. */
static mrd_err
sync_bytes(const mrd_artifacts *artifacts, int fd, const char *part, char text[MRD_TEXT_MAX])
{
    if (artifacts->o.store->sync != MRD_SYNC_GROUP || fsync(fd) == 0)
        return MRD_OK;
    mrd_artifact_fail_io(text, part);
    unlink(part);
    return mrd_artifact_fail(MRD_CORRUPT, text,
                             "the disk failed to take the received bytes: announce the file again");
}

/* Syncs a complete file with a verified hash, and renames it to its final name. */
static mrd_err
give_name(mrd_artifacts *artifacts, const char *part, const char *path, uint64_t size,
          char text[MRD_TEXT_MAX])
{
    int fd = open(part, O_WRONLY | O_CLOEXEC | (size == 0 ? O_CREAT : 0), 0600);
    mrd_err err = fd < 0 ? mrd_artifact_fail_io(text, path) : sync_bytes(artifacts, fd, part, text);

    artifacts->names_unsure = true;
    if (err == MRD_OK && rename(part, path) != 0)
        err = mrd_artifact_fail_io(text, path);
    if (fd >= 0)
        close(fd);
    return err;
}

static mrd_err
prove_bytes(mrd_artifacts *artifacts, mrd_proof *proof, const char *part, const char *path)
{
    char hex[MRD_SHA256_HEX];
    mrd_err err = MRD_OK;

    if (proof->sum != NULL)
        mrd_sha256_hex(proof->sum, hex);
    else
        err = hash_again(artifacts, part, hex, proof->text);
    mrd_sha256_free(proof->sum);
    proof->sum = NULL;
    if (err == MRD_OK && strcmp(hex, proof->sha256) != 0) {
        unlink(part);
        err = mrd_artifact_fail(
            MRD_CORRUPT, proof->text,
            "the received bytes do not have the announced hash: announce the file again");
    }
    return err == MRD_OK ? give_name(artifacts, part, path, proof->size, proof->text) : err;
}

/* ---- Adding the file to its sessions ---- */

/* Returns true for errors of the disk or the machine that may be temporary, so that a retry is
 * useful. */
static bool
may_pass(int sys)
{
    return sys == ENOSPC || sys == EDQUOT || sys == EIO || sys == EROFS || sys == EMFILE ||
           sys == ENFILE || sys == ENOMEM;
}

/* Links the file to <session>/`name`. The name is <instance>_pid_<pid>/<file>, the layout that the
 * vendor's viewer expects. Exports find the file by this link. So the function returns an error
 * that may be temporary, and the agent announces the file again later. Other errors are only
 * logged. */
static mrd_err
make_link(const mrd_session_store *store, const char *from, const char *session, const char *name,
          char text[MRD_TEXT_MAX])
{
    char *to = mrd_session_store_path(store, session, "%s", name), *slash;
    mrd_why why = { 0 };
    mrd_err err = MRD_OK;

    if (to == NULL)
        return mrd_artifact_fail(MRD_NOMEM, text, "out of memory");
    slash = strrchr(to, '/');
    *slash = '\0';
    errno = mrd_make_dirs(to, &why) == MRD_OK ? 0 : why.sys;
    *slash = '/';
    if (errno == 0 && link(from, to) != 0 && errno != EEXIST && symlink(from, to) == 0)
        errno = 0;
    if (errno != 0 && errno != EEXIST && may_pass(errno))
        err = mrd_artifact_fail_io(text, to);
    else if (errno != 0 && errno != EEXIST)
        mrd_log(MRD_LOG_WARN, "AGG-ARTIFACT-LINK",
                "An artifact was not linked into its session: path=%s reason=%s", to,
                strerror(errno));
    free(to);
    return err;
}

static mrd_err
write_lines(const mrd_session_store *store, const mrd_artifact_note *note, char text[MRD_TEXT_MAX])
{
    char *path = mrd_session_store_path(store, note->text, "artifacts.log");
    bool sync = store->sync == MRD_SYNC_GROUP;
    mrd_err err = MRD_OK;
    int fd;

    if (path == NULL || note->lines.err != MRD_OK) {
        free(path);
        return mrd_artifact_fail(MRD_NOMEM, text, "out of memory");
    }
    if ((fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) < 0) {
        /* ENOENT means that the session was deleted in the meantime */
        err = errno == ENOENT ? MRD_OK : mrd_artifact_fail_io(text, path);
        free(path);
        return err;
    }
    errno = EIO;
    if (write(fd, note->lines.p, note->lines.len) != (ssize_t) note->lines.len ||
        (sync && fdatasync(fd) != 0))
        /* An incomplete line may remain in the log. Readers skip it. */
        err = mrd_artifact_fail_io(text, path);
    close(fd);
    /* the directory is synced too, because an earlier process may have created the log without a
     * sync */
    if (err == MRD_OK && sync) {
        *strrchr(path, '/') = '\0';
        if (mrd_sync_dir(path, NULL) != MRD_OK)
            err = mrd_artifact_fail_io(text, path);
    }
    free(path);
    return err;
}

static void
artifact_note_fini(mrd_artifact_note *note)
{
    for (size_t i = 0; i < note->n_links; i++)
        free(note->links[i]);
    free(note->links);
    mrd_buf_fini(&note->lines);
}

static mrd_err
write_notes(const mrd_artifacts *artifacts, mrd_proof *proof, const char *path)
{
    mrd_artifact_note *notes = NULL;
    size_t n = artifacts->o.complete(artifacts->o.self, proof->sha256, proof->proven, &notes);
    mrd_err first = MRD_OK;

    for (size_t i = 0; i < n; i++) {
        mrd_err err = MRD_OK;

        for (size_t k = 0; k < notes[i].n_links && err == MRD_OK; k++)
            err =
                make_link(artifacts->o.store, path, notes[i].text, notes[i].links[k], proof->text);
        if (err == MRD_OK)
            err = write_lines(artifacts->o.store, &notes[i], proof->text);
        first = first == MRD_OK ? err : first;
        if (err == MRD_OK)
            artifacts->o.logged(artifacts->o.self, notes[i].session, proof->sha256);
        artifact_note_fini(&notes[i]);
    }
    free(notes);
    return first;
}

static void
answer(const mrd_artifacts *artifacts, mrd_proof *proof)
{
    Mrd__ArtifactRequest request = MRD__ARTIFACT_REQUEST__INIT;
    Mrd__Ack ack = MRD__ACK__INIT;

    if (proof->err == MRD_CLOSED) {
        mrd_server_drop(artifacts->o.server, &proof->request);
    } else if (proof->announced) {
        request.have = proof->err == MRD_OK;
        request.err = (uint32_t) proof->err;
        request.message = proof->text;
        request.retry_after_ms = proof->err == MRD_OK ? 0 : 1000;
        mrd_artifact_reply(artifacts, &proof->request, MRD_FRAME_REQUEST, &request);
    } else {
        mrd_artifact_ack(&ack, proof->err, proof->text);
        mrd_artifact_reply(artifacts, &proof->request, MRD_FRAME_ACK, &ack);
    }
}

void
mrd_artifacts_end_uploads(mrd_artifacts *artifacts)
{
    mrd_proof *proof = __atomic_exchange_n(&artifacts->proven, NULL, __ATOMIC_ACQUIRE);

    while (proof != NULL) {
        mrd_proof *next = proof->next;
        mrd_upload *upload = mrd_artifact_upload(artifacts, proof->sha256);

        if (upload != NULL && upload->busy) {
            /* After an error of the disk the upload is kept, and the next attempt hashes the whole
             * file. */
            upload->busy = false;
            if (proof->err == MRD_OK || proof->err == MRD_CORRUPT)
                mrd_upload_forget(upload);
        }
        free(proof);
        proof = next;
    }
}

/* Passes the result of a verification to the receiver's thread through a lock-free list. This list
 * is never full. If a result were dropped from a full queue, the upload would stay busy, and the
 * file would be refused until a restart. */
static void
hand_over(mrd_artifacts *artifacts, mrd_proof *proof)
{
    proof->next = __atomic_load_n(&artifacts->proven, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&artifacts->proven, &proof->next, proof, true,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

void
mrd_artifact_prove(void *self, void *arg)
{
    mrd_artifacts *artifacts = self;
    mrd_proof *proof = arg;
    char *path = mrd_artifact_path(artifacts, proof->sha256, ""),
         *part = mrd_artifact_path(artifacts, proof->sha256, ".part");

    proof->err = MRD_OK;
    if (path == NULL || part == NULL)
        proof->err = mrd_artifact_fail(MRD_NOMEM, proof->text, "out of memory");
    else if (access(path, F_OK) != 0)
        proof->proven = (proof->err = prove_bytes(artifacts, proof, part, path)) == MRD_OK;
    if (proof->err == MRD_OK && artifacts->names_unsure)
        proof->err = sync_names(artifacts, proof->text);
    if (proof->err == MRD_OK)
        proof->err = write_notes(artifacts, proof, path);
    free(path);
    free(part);
    mrd_sha256_free(proof->sum);
    proof->sum = NULL;
    answer(artifacts, proof);
    hand_over(artifacts, proof);
}
