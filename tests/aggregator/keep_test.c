/* What goes from the store and what stays: retention with a clock that is a number, artifacts that
 * sessions share, and what a crash leaves. */
#include "tests/check.h"

#include <fcntl.h>
#include <time.h>

#include "aggregator/artifact_int.h"

#define HOUR (3600 * MRD_SEC)

/* A session of so many bytes that began at `hour`. */
static hub_session *
session(hub *h, uint64_t id, int hour, uint64_t bytes, session_state state)
{
    hub_session *s = calloc(1, sizeof(*s)), **v;
    hub_node node = { .instance_id = "i-1" };

    s->id = id;
    mrd_session_id_text(id, s->text);
    s->created_wall_ns = hour * HOUR;
    s->state = state;
    hub_part_add(s, &node)->bytes = bytes;
    v = realloc(h->sessions, (h->n_sessions + 1) * sizeof(*v));
    h->sessions = v;
    h->sessions[h->n_sessions++] = s;
    return s;
}

static hub *
store(int64_t retain_ns, int64_t retain_bytes)
{
    hub *h = calloc(1, sizeof(*h));

    CHECK_ERR("hub", hub_init(h, test_tmp(), NULL), MRD_OK);
    h->limits.retain_ns = retain_ns;
    h->limits.retain_bytes = retain_bytes;
    return h;
}

static void
close_store(hub *h)
{
    hub_fini(h);
    free(h);
}

TEST(by_age_only_what_is_over)
{
    hub *h = store(24 * HOUR, 0);
    hub_session *old = session(h, 1, 0, 10, SESSION_COMPLETE);
    hub_session *failed = session(h, 2, 0, 10, SESSION_FAILED);
    hub_session *young = session(h, 3, 10, 10, SESSION_COMPLETE);
    hub_session *running = session(h, 4, 0, 10, SESSION_RECORDING);
    hub_session *stopping = session(h, 5, 0, 10, SESSION_STOPPING);
    hub_session *merging = session(h, 6, 0, 10, SESSION_MERGING);

    keep_retain(h, 24 * HOUR);
    CHECK(!old->deleted); /* not older yet */
    keep_retain(h, 24 * HOUR + 1);
    CHECK(old->deleted && failed->deleted && !young->deleted);
    keep_retain(h, 1000 * HOUR);
    CHECK(young->deleted);
    CHECK(!running->deleted && !stopping->deleted && !merging->deleted);
    running->state = SESSION_COMPLETE;
    keep_retain(h, 1000 * HOUR);
    CHECK(running->deleted);
    close_store(h);
}

TEST(by_size_the_oldest_first)
{
    hub *h = store(0, 100);
    hub_session *a = session(h, 1, 3, 40, SESSION_COMPLETE);
    hub_session *b = session(h, 2, 1, 40, SESSION_RECORDING); /* the oldest, but it runs */
    hub_session *c = session(h, 3, 2, 40, SESSION_COMPLETE);
    hub_session *d = session(h, 4, 4, 20, SESSION_COMPLETE);

    keep_retain(h, 5 * HOUR);
    CHECK(c->deleted && !a->deleted && !b->deleted && !d->deleted);
    keep_retain(h, 5 * HOUR); /* what goes is not counted again */
    CHECK(!a->deleted && !d->deleted);
    b->parts[0]->bytes = 1000; /* it alone is too much: the others go, it stays */
    keep_retain(h, 5 * HOUR);
    CHECK(a->deleted && d->deleted && !b->deleted);
    close_store(h);
}

TEST(what_is_being_sent_stays_until_it_was)
{
    hub *h = store(HOUR, 1);
    hub_session *s = session(h, 1, 0, 10, SESSION_COMPLETE);

    s->served = 2;
    keep_retain(h, 100 * HOUR);
    CHECK(!s->deleted);
    s->served = 0;
    keep_retain(h, 100 * HOUR);
    CHECK(s->deleted);
    close_store(h);
}

/* ---- Artifacts ---- */

#define SHA_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SHA_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define SHA_C "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

/* The session lists a file that is there. */
static void
list(hub *h, hub_session *s, const char *sha256, uint64_t size)
{
    hub_artifact *v = realloc(s->artifacts, (s->n_artifacts + 1) * sizeof(*v));

    s->artifacts = v;
    v = &v[s->n_artifacts++];
    *v = (hub_artifact){ .size = size, .complete = true, .noted = true };
    snprintf(v->sha256, sizeof(v->sha256), "%s", sha256);
    snprintf(v->name, sizeof(v->name), "f%zu", s->n_artifacts);
    snprintf(v->instance_id, sizeof(v->instance_id), "i-1");
    CHECK_ERR("list", keep_list(h, sha256), MRD_OK);
    keep_grown(h, sha256, size);
}

/* A file below the store, its folder too; so many seconds old. */
static void
put(hub *h, const char *name, size_t size, int age_s)
{
    char path[400], *slash;
    struct timespec times[2] = { { time(NULL) - age_s, 0 }, { time(NULL) - age_s, 0 } };
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", h->store, name);
    for (slash = path + strlen(h->store) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
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
there(const hub *h, const char *name)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/%s", h->store, name);
    return access(path, F_OK) == 0;
}

TEST(artifacts_count_once_and_until_the_last_session_goes)
{
    hub *h = store(0, 150);
    hub_session *a = session(h, 1, 1, 10, SESSION_COMPLETE);
    hub_session *b = session(h, 2, 2, 10, SESSION_COMPLETE);
    hub_session *c = session(h, 3, 3, 10, SESSION_COMPLETE);

    list(h, a, SHA_A, 100);
    list(h, a, SHA_A, 100); /* under another name */
    list(h, b, SHA_A, 100);
    list(h, c, SHA_B, 20);
    CHECK_INT(keep_total(h), 150);
    keep_retain(h, 4 * HOUR); /* it just fits */
    CHECK(!a->deleted && !b->deleted && !c->deleted);
    keep_grown(h, SHA_B, 21);
    keep_retain(h, 4 * HOUR); /* the oldest alone frees 10: its artifact is shared */
    CHECK(a->deleted && !b->deleted && !c->deleted);
    CHECK_INT(keep_total(h), 141);
    keep_grown(h, SHA_B, 31);
    keep_retain(h, 4 * HOUR);
    CHECK(b->deleted && !c->deleted); /* ... and the second frees it */
    CHECK_INT(keep_total(h), 41);
    keep_retire(h, b); /* twice is once */
    CHECK_INT(keep_total(h), 41);
    close_store(h);
}

TEST(what_nobody_lists_is_swept)
{
    hub *h = store(0, 0);
    hub_session *a = session(h, 1, 1, 10, SESSION_COMPLETE);
    hub_session *b = session(h, 2, 1, 10, SESSION_RECORDING);

    put(h, "artifacts/" SHA_A, 5, 0);
    put(h, "artifacts/" SHA_B, 5, 0);
    put(h, "artifacts/" SHA_C ".part", 5, 0);
    put(h, "artifacts/README", 5, 100000);
    list(h, a, SHA_A, 5);
    list(h, b, SHA_A, 5);
    h->unreadable = 1; /* a session that cannot be read may list any */
    keep_sweep(h);
    CHECK(there(h, "artifacts/" SHA_B));
    h->unreadable = 0;
    keep_sweep(h);
    CHECK(there(h, "artifacts/" SHA_A) && !there(h, "artifacts/" SHA_B));
    CHECK(there(h, "artifacts/" SHA_C ".part") &&
          there(h, "artifacts/README")); /* young; not ours */
    put(h, "artifacts/" SHA_C ".part", 5, 100000);
    list(h, b, SHA_C, 5);
    b->artifacts[1].complete = false;
    keep_sweep(h);
    CHECK(there(h, "artifacts/" SHA_C ".part")); /* b is open: its node may come back */
    b->state = SESSION_COMPLETE;
    CHECK_INT(keep_total(h), 30);
    keep_sweep(h);
    CHECK(!there(h, "artifacts/" SHA_C ".part"));
    CHECK_INT(keep_total(h), 25);
    keep_retire(h, a);
    keep_retire(h, b);
    keep_sweep(h);
    CHECK(there(h, "artifacts/" SHA_A)); /* both may still be read, and be back after a crash */
    pthread_mutex_lock(&h->lock);
    keep_remove(h, a);
    pthread_mutex_unlock(&h->lock);
    keep_sweep(h);
    CHECK(there(h, "artifacts/" SHA_A));
    pthread_mutex_lock(&h->lock);
    keep_remove(h, b);
    pthread_mutex_unlock(&h->lock);
    keep_sweep(h);
    CHECK(!there(h, "artifacts/" SHA_A) && there(h, "artifacts/README"));
    CHECK_INT(h->stats.artifacts_removed, 2);
    CHECK(h->n_files == 0);
    close_store(h);
}

/* The thread measures closed sessions and empties what is removed, also of a run before. */
TEST(folders_are_measured_and_removed)
{
    hub *h = store(0, 0);
    hub_session *a = session(h, 1, 1, 10, SESSION_COMPLETE);
    char name[200], other[200], path[400];
    uint64_t bytes = 0;

    put(h, "removed/of-a-run-before/journal/000001.mrj", 100, 0);
    snprintf(name, sizeof(name), "sessions/%s/journal/i-1/000001.mrj", a->text);
    put(h, name, 100000, 0);
    snprintf(name, sizeof(name), "sessions/%s/profile/system_profile.pftrace", a->text);
    put(h, name, 50000, 0);
    put(h, "artifacts/" SHA_A, 300000, 0);
    snprintf(path, sizeof(path), "%s/artifacts/" SHA_A, h->store);
    snprintf(other, sizeof(other), "%s/sessions/%s/model.neff", h->store, a->text);
    CHECK(link(path, other) == 0); /* of the session's folder, but counted as the artifact it is */
    list(h, a, SHA_A, 300000);
    a->closed = true;
    CHECK_ERR("open", keep_open(h, NULL), MRD_OK);
    for (int i = 0; i < 6000 && (bytes == 0 || there(h, "removed/of-a-run-before")); i++) {
        nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
        pthread_mutex_lock(&h->lock);
        bytes = a->folder_bytes;
        pthread_mutex_unlock(&h->lock);
    }
    CHECK(bytes >= 150000 && bytes < 250000);
    CHECK(!there(h, "removed/of-a-run-before") && there(h, "removed"));
    pthread_mutex_lock(&h->lock);
    CHECK_INT(keep_total(h), bytes + 300000);
    keep_remove(h, a);
    CHECK(!there(h, name)); /* at once, by its name */
    pthread_mutex_unlock(&h->lock);
    snprintf(other, sizeof(other), "removed/%s", a->text);
    for (int i = 0; i < 6000 &&
                    (there(h, other) || there(h, "artifacts/" SHA_A) || there(h, "removed/" SHA_A));
         i++)
        nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
    CHECK(!there(h, other) && !there(h, "artifacts/" SHA_A) && !there(h, "removed/" SHA_A));
    keep_close(h);
    close_store(h);
}

/* As many files as may be under way: the next waits until one of them stands still. */
TEST(uploads_are_bounded)
{
    enum { MOST = 1024 };
    hub *h = store(0, 0);
    hub_node node = { .instance_id = "i-1" };
    Mrd__ArtifactOffer offer = MRD__ARTIFACT_OFFER__INIT;
    char sha[65], name[] = "x.ntff", text[HUB_TEXT_MAX];
    mrd_msg msg = { .frame = { .type = MRD_FRAME_OFFER }, .u.offer = &offer };

    offer.sha256 = sha;
    offer.name = name;
    offer.size = 10;
    for (unsigned i = 0; i < MOST + 2; i++) {
        Mrd__ArtifactWant want = MRD__ARTIFACT_WANT__INIT;

        snprintf(sha, sizeof(sha), "%064x", i);
        if (i == MOST + 1) /* another stands still */
            h->uploads[7].used_ns -= 10 * MRD_SEC;
        CHECK_ERR(sha, artifact_offer(h, &node, &msg, &want, text), i == MOST ? MRD_AGAIN : MRD_OK);
        CHECK_ROW(sha, (want.retry_after_ms > 0) == (i == MOST));
    }
    CHECK_TEXT(h->uploads[7].sha256, sha);
    close_store(h);
}

/* One node's pieces and sizes touch no other's: neither another size nor bytes of another node. */
TEST(an_upload_belongs_to_one_node)
{
    hub *h = store(0, 0);
    hub_node honest = { .instance_id = "i-1", .key = 1 }, evil = { .instance_id = "i-2", .key = 2 };
    Mrd__ArtifactOffer offer = MRD__ARTIFACT_OFFER__INIT;
    Mrd__ArtifactChunk chunk = MRD__ARTIFACT_CHUNK__INIT;
    Mrd__ArtifactWant want = MRD__ARTIFACT_WANT__INIT;
    Mrd__Ack ack = MRD__ACK__INIT;
    char sha[65], name[] = "x.neff", text[HUB_TEXT_MAX];
    uint8_t bytes[6] = "abcde";
    mrd_msg ask = { .frame = { .type = MRD_FRAME_OFFER, .agent = 1 }, .u.offer = &offer };
    mrd_msg piece = { .frame = { .type = MRD_FRAME_CHUNK, .agent = 1 }, .u.chunk = &chunk };

    snprintf(sha, sizeof(sha), "%064x", 7);
    offer.sha256 = chunk.sha256 = sha;
    offer.name = name;
    offer.size = 10;
    chunk.data = (ProtobufCBinaryData){ 5, bytes };
    CHECK_ERR("offer", artifact_offer(h, &honest, &ask, &want, text), MRD_OK);
    CHECK_ERR("piece", artifact_chunk(h, &piece, &ack, text), MRD_OK);
    CHECK_INT(ack.artifact_offset, 5);
    ask.frame.agent = piece.frame.agent = 2;
    offer.size = 9;
    chunk.offset = 5;
    CHECK_ERR("another size", artifact_offer(h, &evil, &ask, &want, text), MRD_AGAIN);
    CHECK_ERR("another's piece", artifact_chunk(h, &piece, &ack, text), MRD_STATE);
    ask.frame.agent = piece.frame.agent = 1;
    offer.size = 10;
    CHECK_ERR("offer again", artifact_offer(h, &honest, &ask, &want, text), MRD_OK);
    CHECK_INT(want.offset, 5);
    CHECK_ERR("rest", artifact_chunk(h, &piece, &ack, text), MRD_OK);
    CHECK_INT(ack.artifact_offset, 10);
    /* It stands still: the next one begins anew, without its bytes. */
    h->uploads[0].used_ns -= 10 * MRD_SEC;
    ask.frame.agent = 2;
    CHECK_ERR("taken over", artifact_offer(h, &evil, &ask, &want, text), MRD_OK);
    CHECK_INT(want.offset, 0);
    close_store(h);
}

TEST_MAIN()
