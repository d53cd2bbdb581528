/* Tests the directories of a store: how they are measured, removed and cleaned up, and how arriving
 * files are stored in them. */
#include "tests/check.h"
#include "tests/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "aggregator/core/common/text.h"
#include "aggregator/store/artifacts_int.h"
#include "aggregator/store/cleaner.h"

#define SHA_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SHA_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define SHA_C "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

static mrd_session_store
open_store(void)
{
    mrd_session_store s;
    mrd_timescale scale;

    CHECK_ERR("store", mrd_session_store_open(&s, test_tmp(), MRD_SYNC_NONE, &scale, NULL), MRD_OK);
    return s;
}

/* Makes a file below the store, with its directory, of this age in seconds. */
static void
put(const char *name, size_t size, int age_s)
{
    char path[400], *slash;
    struct timespec times[2] = { { time(NULL) - age_s, 0 }, { time(NULL) - age_s, 0 } };
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", test_tmp(), name);
    for (slash = path + strlen(test_tmp()) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    f = fopen(path, "w");
    REQUIRE(f != NULL);
    for (size_t i = 0; i < size; i++)
        fputc('x', f);
    fclose(f);
    CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
}

static bool
there(const char *name)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/%s", test_tmp(), name);
    return access(path, F_OK) == 0;
}

/* ---- The cleaner ---- */

typedef struct {
    uint64_t bytes, removed; /* atomic */
    mrd_why why;             /* why it was not removed */
} seen;

static bool read_only; /* directories can be neither renamed nor removed */

/* The following functions replace functions of the C library. They fail if `read_only` is set. */
int
rename(const char *from, const char *to)
{
    errno = EROFS;
    return read_only ? -1 : renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int
rmdir(const char *path)
{
    errno = EROFS;
    return read_only ? -1 : unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

static void
on_measured(void *self, uint64_t session, uint64_t bytes)
{
    (void) session;
    __atomic_store_n(&((seen *) self)->bytes, bytes, __ATOMIC_RELEASE);
}

static void
on_removed(void *self, uint64_t session, const mrd_why *failed)
{
    if (failed != NULL)
        ((seen *) self)->why = *failed;
    __atomic_store_n(&((seen *) self)->removed, session, __ATOMIC_RELEASE);
}

static void
on_disk(void *self, int64_t free_bytes)
{
    (void) self;
    (void) free_bytes;
}

/* Closed sessions are measured. Removed directories are emptied, including directories of an
 * earlier run. */
TEST(folders_are_measured_and_removed)
{
    mrd_session_store store = open_store();
    seen got = { 0 };
    mrd_cleaner_options o = { .store = &store,
                              .measured = on_measured,
                              .removed = on_removed,
                              .disk = on_disk,
                              .self = &got };
    mrd_cleaner *c;
    char text[MRD_SESSION_TEXT], name[200], path[400], other[400];

    mrd_session_id_text(1, text);
    put("removed/of-a-run-before/journal/000001.mrj", 100, 0);
    snprintf(name, sizeof(name), "sessions/%s/journal/i-1/000001.mrj", text);
    put(name, 100000, 0);
    snprintf(name, sizeof(name), "sessions/%s/profile/system_profile.pftrace", text);
    put(name, 50000, 0);
    put("artifacts/" SHA_A, 300000, 0);
    snprintf(path, sizeof(path), "%s/artifacts/" SHA_A, test_tmp());
    snprintf(other, sizeof(other), "%s/sessions/%s/model.neff", test_tmp(), text);
    /* a link in the session's directory, whose bytes count as the artifact's */
    CHECK(link(path, other) == 0);
    CHECK_ERR("open", mrd_cleaner_open(&o, &c, NULL), MRD_OK);
    mrd_cleaner_measure(c, 1, text);
    mrd_cleaner_close(c); /* when all was done */
    CHECK(got.bytes >= 150000 && got.bytes < 250000);
    CHECK_ERR("open", mrd_cleaner_open(&o, &c, NULL), MRD_OK);
    read_only = true;
    mrd_cleaner_remove(c, 1, text);
    TEST_UNTIL(__atomic_load_n(&got.removed, __ATOMIC_ACQUIRE) == 1);
    read_only = false;
    CHECK(got.why.err == MRD_IO && strstr(got.why.text, "Read-only file system") != NULL);
    got = (seen){ .bytes = got.bytes };
    mrd_cleaner_remove(c, 1, text);
    TEST_UNTIL(__atomic_load_n(&got.removed, __ATOMIC_ACQUIRE) == 1 &&
               !there("removed/of-a-run-before"));
    CHECK(got.removed == 1 && got.why.err == MRD_OK && !there(name) && there("artifacts/" SHA_A));
    mrd_cleaner_close(c);
    CHECK(!there("removed/of-a-run-before") && there("removed"));
    mrd_session_store_fini(&store);
}

/* ---- Artifacts ---- */

typedef struct {
    const char *listed[4]; /* names of complete files, or of parts whose upload may continue */
    unsigned removed;
    uint64_t grown;
} book;

static void
on_grown(void *self, const char *sha256, uint64_t bytes, uint64_t more)
{
    (void) sha256;
    (void) more;
    ((book *) self)->grown = bytes;
}

static mrd_artifact_note *a_note; /* the note that on_complete returns; NULL means none */

static size_t
on_complete(void *self, const char *sha256, bool proven, mrd_artifact_note **ret_notes)
{
    (void) self;
    (void) sha256;
    (void) proven;
    *ret_notes = a_note;
    a_note = NULL;
    return *ret_notes != NULL;
}

static void
on_logged(void *self, uint64_t session, const char *sha256)
{
    (void) self;
    (void) session;
    (void) sha256;
}

static bool
on_listed(void *self, const char *sha256, bool part)
{
    const book *b = self;

    (void) part;
    for (size_t i = 0; i < MRD_COUNT(b->listed); i++) {
        if (b->listed[i] != NULL && strcmp(b->listed[i], sha256) == 0)
            return true;
    }
    return false;
}

static void
on_file_removed(void *self, bool part)
{
    ((book *) self)->removed += !part;
}

static void
on_limited(void *self, const char *instance_id)
{
    (void) self;
    (void) instance_id;
}

static mrd_artifacts *
open_artifacts(const mrd_session_store *store, book *b)
{
    mrd_artifacts_options o = { .store = store,
                                .grown = on_grown,
                                .complete = on_complete,
                                .logged = on_logged,
                                .listed = on_listed,
                                .removed = on_file_removed,
                                .limited = on_limited,
                                .self = b };
    mrd_artifacts *a;

    CHECK_ERR("artifacts", mrd_artifacts_open(&o, &a, NULL), MRD_OK);
    return a;
}

TEST(what_nobody_lists_is_swept)
{
    mrd_session_store store = open_store();
    book b = { .listed = { SHA_A, SHA_C } };
    mrd_artifacts *a = open_artifacts(&store, &b);

    put("artifacts/" SHA_A, 5, 0);
    put("artifacts/" SHA_B, 5, 0);
    put("artifacts/" SHA_C ".part", 5, 0);
    put("artifacts/README", 5, 100000);
    mrd_artifact_sweep(a, NULL);
    CHECK(there("artifacts/" SHA_A) && !there("artifacts/" SHA_B) && there("removed/" SHA_B));
    CHECK(there("artifacts/" SHA_C ".part") && there("artifacts/README")); /* young; not ours */
    put("artifacts/" SHA_C ".part", 5, 100000);
    mrd_artifact_sweep(a, NULL);
    CHECK(there("artifacts/" SHA_C ".part")); /* its node may come back */
    b.listed[1] = NULL;
    mrd_artifact_sweep(a, NULL);
    CHECK(!there("artifacts/" SHA_C ".part"));
    b.listed[0] = NULL;
    mrd_artifact_sweep(a, NULL);
    CHECK(!there("artifacts/" SHA_A) && there("artifacts/README"));
    CHECK_INT(b.removed, 2);
    mrd_artifacts_close(a);
    mrd_session_store_fini(&store);
}

/* The number of concurrent uploads is limited. One more upload waits until one of them stalls. */
TEST(uploads_are_bounded)
{
    mrd_session_store store = open_store();
    book b = { 0 };
    mrd_artifacts *a = open_artifacts(&store, &b);
    Mrd__ArtifactAnnounce announce = MRD__ARTIFACT_ANNOUNCE__INIT;
    char sha[65], name[] = "x.ntff", text[MRD_TEXT_MAX];

    announce.sha256 = sha;
    announce.name = name;
    announce.size = 10;
    for (unsigned i = 0; i < MRD_UPLOADS_MAX + 2; i++) {
        Mrd__ArtifactRequest request = MRD__ARTIFACT_REQUEST__INIT;

        snprintf(sha, sizeof(sha), "%064x", i);
        if (i == MRD_UPLOADS_MAX + 1) /* another stands still */
            a->uploads[7].used.ns -= 10 * MRD_SEC;
        CHECK_ERR(sha, mrd_artifact_begin(a, 0, &announce, &request, text),
                  i == MRD_UPLOADS_MAX ? MRD_AGAIN : MRD_OK);
    }
    CHECK_TEXT(a->uploads[7].sha256, sha);
    mrd_artifacts_close(a);
    mrd_session_store_fini(&store);
}

/* The chunks and sizes of one node cannot change the file of another node. */
TEST(an_upload_belongs_to_one_node)
{
    mrd_session_store store = open_store();
    book b = { 0 };
    mrd_artifacts *a = open_artifacts(&store, &b);
    Mrd__ArtifactAnnounce announce = MRD__ARTIFACT_ANNOUNCE__INIT;
    Mrd__ArtifactChunk chunk = MRD__ARTIFACT_CHUNK__INIT;
    Mrd__ArtifactRequest request = MRD__ARTIFACT_REQUEST__INIT;
    Mrd__Ack ack = MRD__ACK__INIT;
    char sha[65], name[] = "x.neff", text[MRD_TEXT_MAX];
    uint8_t bytes[6] = "abcde";
    enum { HONEST = 1, EVIL };

    snprintf(sha, sizeof(sha), "%064x", 7);
    announce.sha256 = chunk.sha256 = sha;
    announce.name = name;
    announce.size = 10;
    chunk.data = (ProtobufCBinaryData){ 5, bytes };
    CHECK_ERR("announce", mrd_artifact_begin(a, HONEST, &announce, &request, text), MRD_OK);
    CHECK_ERR("chunk", mrd_artifact_chunk(a, HONEST, &chunk, &ack, text), MRD_OK);
    CHECK_INT(ack.artifact_offset, 5);
    announce.size = 9;
    chunk.offset = 5;
    CHECK_ERR("another size", mrd_artifact_begin(a, EVIL, &announce, &request, text), MRD_AGAIN);
    CHECK_ERR("another's chunk", mrd_artifact_chunk(a, EVIL, &chunk, &ack, text), MRD_STATE);
    announce.size = 10;
    CHECK_ERR("announce again", mrd_artifact_begin(a, HONEST, &announce, &request, text), MRD_OK);
    CHECK_INT(request.offset, 5);
    CHECK_ERR("rest", mrd_artifact_chunk(a, HONEST, &chunk, &ack, text), MRD_OK);
    CHECK_INT(ack.artifact_offset, 10);
    /* The upload has stalled. The next one begins again without its bytes. */
    a->uploads[0].used.ns -= 10 * MRD_SEC;
    CHECK_ERR("taken over", mrd_artifact_begin(a, EVIL, &announce, &request, text), MRD_OK);
    CHECK_INT(request.offset, 0);
    mrd_artifacts_close(a);
    mrd_session_store_fini(&store);
}

static unsigned answers;  /* atomic */
static int refused_links; /* errno with which all calls of link() fail; 0 means they succeed */

void __wrap_mrd_server_reply(mrd_server *server, mrd_server_request *request, mrd_bytes reply);
int __real_link(const char *from, const char *to);
int __real_symlink(const char *from, const char *to);
int __wrap_link(const char *from, const char *to);
int __wrap_symlink(const char *from, const char *to);

void
__wrap_mrd_server_reply(mrd_server *server, mrd_server_request *request, mrd_bytes reply)
{
    (void) server;
    (void) request;
    (void) reply;
    __atomic_add_fetch(&answers, 1, __ATOMIC_RELEASE);
}

int
__wrap_link(const char *from, const char *to)
{
    errno = refused_links;
    return refused_links != 0 ? -1 : __real_link(from, to);
}

int
__wrap_symlink(const char *from, const char *to)
{
    errno = refused_links;
    return refused_links != 0 ? -1 : __real_symlink(from, to);
}

static void
wait_until(void *self, void *go)
{
    (void) self;
    while (!__atomic_load_n((bool *) go, __ATOMIC_ACQUIRE))
        test_look_again();
}

static mrd_proof *
a_proof(mrd_artifacts *a, const char *sha256)
{
    mrd_proof *proof = calloc(1, sizeof(*proof));

    MRD_ASSERT(proof != NULL);
    proof->of = a;
    mrd_text_set(proof->sha256, sizeof(proof->sha256), sha256);
    return proof;
}

/* The upload of a verified file ends also if the receiver's queue is full at that time. */
TEST(no_upload_stays_busy)
{
    mrd_session_store store = open_store();
    book b = { .listed = { SHA_A } };
    mrd_artifacts *a = open_artifacts(&store, &b);
    Mrd__ArtifactAnnounce announce = MRD__ARTIFACT_ANNOUNCE__INIT;
    Mrd__ArtifactRequest request = MRD__ARTIFACT_REQUEST__INIT;
    char sha[] = SHA_A, name[] = "x.neff", text[MRD_TEXT_MAX];
    bool go = false;

    put("artifacts/" SHA_A, 5, 0);
    announce.sha256 = sha;
    announce.name = name;
    announce.size = 5;
    CHECK_ERR("announce", mrd_artifact_begin(a, 1, &announce, &request, text), MRD_OK);
    a->uploads[0].busy = true;
    while (mrd_pool_put(a->receiver, wait_until, a, &go))
        ;
    CHECK(mrd_pool_put(a->prover, mrd_artifact_prove, a, a_proof(a, SHA_A)));
    TEST_UNTIL(__atomic_load_n(&answers, __ATOMIC_ACQUIRE) == 1);
    mrd_pool_close(a->prover);
    a->prover = NULL;
    __atomic_store_n(&go, true, __ATOMIC_RELEASE);
    mrd_pool_close(a->receiver);
    a->receiver = NULL;
    mrd_artifact_sweep(a, NULL);
    CHECK(mrd_artifact_upload(a, SHA_A) == NULL);
    mrd_artifacts_close(a);
    mrd_session_store_fini(&store);
}

/* An artifact whose link the disk refuses is not complete, because an export would lack it. */
TEST(links_that_are_refused)
{
    static const struct {
        int sys;
        mrd_err err;
    } rows[] = { { ENOSPC, MRD_FULL }, { EIO, MRD_IO },   { EROFS, MRD_IO },
                 { EMFILE, MRD_IO },   { EPERM, MRD_OK }, { 0, MRD_OK } };
    mrd_session_store store = open_store();
    book b = { 0 };
    mrd_artifacts *a = open_artifacts(&store, &b);

    put("artifacts/" SHA_B, 5, 0);
    put("sessions/s/session.json", 5, 0);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_proof *proof = a_proof(a, SHA_B);

        a_note = calloc(1, sizeof(*a_note));
        REQUIRE(a_note != NULL && (a_note->links = calloc(1, sizeof(*a_note->links))) != NULL);
        snprintf(a_note->text, sizeof(a_note->text), "s");
        a_note->links[0] = strdup("i-a_pid_7/x.ntff");
        a_note->n_links = 1;
        mrd_buf_text(&a_note->lines, "line\n");
        refused_links = rows[i].sys;
        mrd_artifact_prove(a, proof); /* `proof` stays in the list of proven files */
        CHECK_ERR(strerror(rows[i].sys), proof->err, rows[i].err);
        CHECK_ROW(strerror(rows[i].sys),
                  rows[i].err == MRD_OK || strstr(proof->text, strerror(rows[i].sys)) != NULL);
        CHECK_ROW(strerror(rows[i].sys), there("sessions/s/artifacts.log") == (i > 3));
    }
    CHECK(there("sessions/s/i-a_pid_7/x.ntff"));
    mrd_artifacts_close(a);
    mrd_session_store_fini(&store);
}

/* Two aggregators on one store would end, merge and delete each other's sessions. */
TEST(a_store_has_one_aggregator)
{
    mrd_session_store first = open_store(), second;
    mrd_timescale scale;
    mrd_why why = { 0 };

    CHECK_ERR("a second", mrd_session_store_open(&second, test_tmp(), MRD_SYNC_NONE, &scale, &why),
              MRD_BUSY);
    CHECK(strstr(why.text, "another aggregator") != NULL && strstr(why.text, test_tmp()) != NULL);
    mrd_session_store_fini(&second);
    CHECK_ERR("it locked nothing",
              mrd_session_store_open(&second, test_tmp(), MRD_SYNC_NONE, &scale, &why), MRD_BUSY);
    mrd_session_store_fini(&second);
    mrd_session_store_fini(&first);
    second = open_store();
    mrd_session_store_fini(&second);
}

TEST_MAIN()
