/* Tests what the aggregator guarantees for the data in its directory, on a simulated disk with
 * failures, kills and lost data. In each case a mistake in the code could acknowledge a frame as
 * stored that is not durable. */
#include "tests/check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregator/store/journals.h"
#include "base/sys/out.h"
#include "tests/sim/disk.h"
#include "tests/wait.h"

#define STORE "/sim/a/store"

/* This test uses the copy of the journal with short segments (tests/sim/planted), without a planted
 * bug. */
unsigned mrd_planted;

/* Calls of one kind that fail: `times` calls after the first `pass`. */
typedef struct {
    sim_disk_call call;
    unsigned pass, times, asked;
    sim_disk_verdict v;
} fault;

typedef struct {
    fault v[3];
} faults;

static void
before(void *self, const sim_disk_op *op, sim_disk_verdict *v)
{
    faults *f = self;

    for (unsigned i = 0; i < MRD_COUNT(f->v); i++) {
        fault *one = &f->v[i];

        if (one->times > 0 && one->call == op->call && one->asked++ >= one->pass &&
            one->asked <= one->pass + one->times)
            *v = one->v;
    }
}

static mrd_frame
frame(uint64_t seq, uint8_t data[MRD_FRAME_HEADER + 200])
{
    mrd_frame f = { .type = MRD_FRAME_CLOCK_DATA, .epoch = 7, .session = 5, .seq = seq };

    memset(data, (int) seq, MRD_FRAME_HEADER + 200);
    mrd_frame_put(&f, (mrd_bytes){ data + MRD_FRAME_HEADER, 200 }, data);
    return f;
}

static mrd_err
append(mrd_journal *j, uint64_t seq)
{
    uint8_t data[MRD_FRAME_HEADER + 200];
    mrd_frame f = frame(seq, data);

    return mrd_journal_append(j, &f, (mrd_bytes){ data, sizeof(data) }, NULL);
}

/* Counts the frames of the journal on the medium. */
static size_t
durable(const sim_disk *d, const char *dir)
{
    sim_disk *copy = sim_disk_durable_copy(d, dir + strlen("/sim/a"), NULL, "b");
    mrd_journal_index x;
    size_t n = 0;

    if (mrd_journal_scan("/sim/b", &x, NULL) == MRD_OK) {
        n = x.n;
        mrd_journal_index_fini(&x);
    }
    sim_disk_free(copy);
    return n;
}

/* Makes a session with a written manifest. Its id is in `text`. */
static void
begin_session(const mrd_session_store *s, mrd_core *c, char text[MRD_SESSION_TEXT])
{
    mrd_session_request r = { 0 };
    mrd_effect *e;

    CHECK(mrd_session_params_init(&r.params) == MRD_OK &&
          mrd_session_params_set(&r.params, "name", "one", NULL) == MRD_OK);
    mrd_core_start(c, (mrd_core_time){ .local = { 10 }, .wall = { 1750000000000000000 } }, 1, &r);
    text[0] = '\0';
    while ((e = mrd_core_effect(c)) != NULL) {
        mrd_session_view *v = e->kind == MRD_DO_SAVE ? mrd_session_view_new(c, e->session) : NULL;

        if (v == NULL)
            continue;
        CHECK_ERR("manifest", mrd_session_store_save(s, v, NULL), MRD_OK);
        snprintf(text, MRD_SESSION_TEXT, "%s", v->s->text);
        mrd_session_view_unref(v);
    }
    CHECK(text[0] != '\0');
}

static mrd_core *
core_new(const mrd_timescale *scale)
{
    mrd_core_options o = {
        .limits = { .max_nodes = 10, .max_sessions = 10, .max_open_sessions = 5 },
        .timescale = *scale
    };

    return mrd_core_new(&o, (mrd_core_time){ .local = { 1 }, .wall = { 1750000000000000000 } });
}

/* Makes a store with one session and its journal. Frames are appended but not synced. */
static char *
store_with_frames(sim_disk *d, mrd_session_store *s, mrd_timescale *scale, unsigned n,
                  mrd_journal **ret_journal)
{
    char text[MRD_SESSION_TEXT], *dir;
    mrd_core *c;

    CHECK_ERR("store", mrd_session_store_open(s, STORE, MRD_SYNC_GROUP, scale, NULL), MRD_OK);
    c = core_new(scale);
    begin_session(s, c, text);
    mrd_core_free(c);
    dir = mrd_session_store_path(s, text, "journal/i-1");
    CHECK_ERR("journal", mrd_journal_open(dir, MRD_STR("i-1"), 5, ret_journal, NULL), MRD_OK);
    for (unsigned i = 0; i < n; i++)
        CHECK_ERR("frame", append(*ret_journal, i), MRD_OK);
    CHECK_INT(durable(d, dir), 0);
    return dir;
}

/* Starts the next process on the store. Returns the number of frames in the journal. -1 means that
 * the process does not start, or that it reads the session later. */
static int
recover(mrd_session_store *s, mrd_timescale *scale, mrd_err *ret_err)
{
    mrd_core *c;
    int n = -1;

    mrd_session_store_fini(s);
    CHECK_ERR("store", mrd_session_store_open(s, STORE, MRD_SYNC_GROUP, scale, NULL), MRD_OK);
    c = core_new(scale);
    *ret_err = mrd_session_store_recover(s, c, NULL);
    if (*ret_err == MRD_OK && c->unreadable > 0)
        *ret_err = MRD_IO;
    if (*ret_err == MRD_OK)
        n = c->n_sessions == 1 && c->sessions[0]->n_parts == 1
                ? (int) mrd_part_frames(c->sessions[0]->parts[0])
                : 0;
    mrd_core_free(c);
    return n;
}

/* A killed process wrote frames without syncing them. The next process finds them and acknowledges
 * repetitions as stored, so it must make them durable. Its sync may fail and lose their data. The
 * same may happen to the following process, which then reads data from the cache that the medium
 * never received. */
TEST(what_is_recovered_is_durable)
{
    static const struct {
        const char *name;
        long type;
        sim_disk_call call;
        unsigned pass;
    } rows[] = {
        { "syncfs", EXT4_SUPER_MAGIC, SIM_DISK_SYNC_ALL, 0 },
        { "syncfs that tells nothing", TMPFS_MAGIC, SIM_DISK_SYNC_ALL, 0 },
        { "a write", EXT4_SUPER_MAGIC, SIM_DISK_WRITE, 0 },
        /* the fault comes after the syncs that opening the store makes */
        { "a folder", TMPFS_MAGIC, SIM_DISK_SYNC_FOLDER, 2 },
    };

    for (unsigned i = 0; i < MRD_COUNT(rows) * 20; i++) {
        sim_disk *d = sim_disk_new(
            "a", &(sim_disk_options){ .seed = i, .type = rows[i % MRD_COUNT(rows)].type });
        faults fail = { { { .call = rows[i % MRD_COUNT(rows)].call,
                            .pass = rows[i % MRD_COUNT(rows)].pass,
                            .times = 1 + i % 2,
                            .v = { .err = EIO } } } };
        mrd_session_store s;
        mrd_timescale scale;
        mrd_journal *j;
        mrd_err err = MRD_IO;
        int n = -1;
        char *dir = store_with_frames(d, &s, &scale, 3, &j);

        sim_disk_kill(d);
        CHECK(mrd_journal_close(j, NULL) != MRD_OK); /* a ghost's */
        for (unsigned starts = 0; err != MRD_OK && starts < 4; starts++) {
            sim_disk_set_before(d, starts == 0 ? before : NULL, &fail);
            n = recover(&s, &scale, &err);
            CHECK_ROW(rows[i % MRD_COUNT(rows)].name, (starts == 0) == (err != MRD_OK));
            if (i % 4 == 3 && err != MRD_OK)
                sim_disk_kill(d); /* the cache may then lose the data that the medium lacks */
        }
        CHECK_INT(durable(d, dir), n);
        CHECK(n == 3 || i % 4 == 3);
        mrd_session_store_fini(&s);
        sim_disk_free(d);
        free(dir);
    }
}

/* After a failed sync of the whole file system, each file reports the failure once. One start of
 * the aggregator must handle all these reports, so that the next start succeeds. */
TEST(failures_of_before_end_no_second_start)
{
    sim_disk *d = sim_disk_new("a", &(sim_disk_options){ .seed = 1, .type = TMPFS_MAGIC });
    faults fail = { { { .call = SIM_DISK_SYNC_ALL, .times = 1, .v = { .err = EIO } } } };
    faults twice = { { { .call = SIM_DISK_SYNC, .times = 2, .v = { .err = EIO } } } };
    mrd_session_store s;
    mrd_timescale scale;
    mrd_journal *j[4];
    mrd_err err;
    char *dir = store_with_frames(d, &s, &scale, 3, &j[0]);

    for (unsigned i = 1; i < MRD_COUNT(j); i++) { /* each its own segment */
        CHECK_ERR("journal", mrd_journal_open(dir, MRD_STR("i-1"), 5, &j[i], NULL), MRD_OK);
        CHECK_ERR("frame", append(j[i], 10 + i), MRD_OK);
    }
    sim_disk_set_before(d, before, &fail);
    {
        int fd = open("/sim/a", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        CHECK(syncfs(fd) != 0);
        close(fd);
    }
    sim_disk_set_before(d, NULL, NULL);
    CHECK_INT(recover(&s, &scale, &err), 6);
    CHECK_INT(durable(d, dir), 6);
    sim_disk_set_before(d, before, &twice);
    /* The disk fails during this recovery, not before it, so the recovery must fail. */
    CHECK_INT(recover(&s, &scale, &err), -1);
    CHECK_ERR("a disk that cannot", err, MRD_IO);
    for (unsigned i = 0; i < MRD_COUNT(j); i++)
        (void) mrd_journal_close(j[i], NULL);
    mrd_session_store_fini(&s);
    sim_disk_free(d);
    free(dir);
}

/* A sync fails, and the process is killed before it truncates the lost part. A descriptor opened
 * afterwards does not report the failure. */
TEST(what_a_failed_sync_left_behind_is_made_durable)
{
    static const long types[] = { EXT4_SUPER_MAGIC, TMPFS_MAGIC };

    for (uint64_t seed = 0; seed < 40; seed++) {
        sim_disk *d =
            sim_disk_new("a", &(sim_disk_options){ .seed = seed, .type = types[seed % 2] });
        faults fail = { { { .call = SIM_DISK_SYNC, .times = 1, .v = { .err = EIO } },
                          { .call = SIM_DISK_SIZE, .times = 1, .v = { .dies = true } } } };
        mrd_session_store s;
        mrd_timescale scale;
        mrd_journal *j;
        mrd_err err;
        int n;
        char *dir = store_with_frames(d, &s, &scale, 3, &j);

        sim_disk_set_before(d, before, &fail);
        CHECK(mrd_journal_sync(j, NULL) != MRD_OK);
        CHECK(sim_disk_is_dead(d));
        sim_disk_kill(d);
        sim_disk_set_before(d, NULL, NULL);
        n = recover(&s, &scale, &err);
        CHECK_INT(durable(d, dir), n);
        CHECK_ERR("recover", err, MRD_OK);
        (void) mrd_journal_close(j, NULL);
        mrd_session_store_fini(&s);
        sim_disk_free(d);
        free(dir);
    }
}

TEST(what_is_recovered_survives_the_power)
{
    sim_disk *d = sim_disk_new("a", &(sim_disk_options){ .seed = 1 });
    char text[MRD_SESSION_TEXT], *dir;
    mrd_session_store s;
    mrd_timescale scale;
    mrd_journal *j;
    mrd_core *c;

    CHECK_ERR("store", mrd_session_store_open(&s, STORE, MRD_SYNC_GROUP, &scale, NULL), MRD_OK);
    c = core_new(&scale);
    begin_session(&s, c, text);
    mrd_core_free(c);
    dir = mrd_session_store_path(&s, text, "journal/i-1");
    CHECK_ERR("journal", mrd_journal_open(dir, MRD_STR("i-1"), 5, &j, NULL), MRD_OK);
    CHECK_ERR("frame", append(j, 0), MRD_OK);
    sim_disk_kill(d);
    (void) mrd_journal_close(j, NULL);
    mrd_session_store_fini(&s);
    CHECK_ERR("store", mrd_session_store_open(&s, STORE, MRD_SYNC_GROUP, &scale, NULL), MRD_OK);
    c = core_new(&scale);
    CHECK_ERR("recover", mrd_session_store_recover(&s, c, NULL), MRD_OK);
    CHECK_INT(durable(d, dir), 1);
    mrd_core_free(c);
    mrd_session_store_fini(&s);
    sim_disk_free(d);
    free(dir);
}

/* The first start creates the store's directories, but can neither sync nor remove their names. The
 * next start finds the directories and must make them durable. */
TEST(a_folder_that_a_failed_start_left_is_durable)
{
    for (unsigned pass = 0; pass < 2; pass++) {
        sim_disk *d = sim_disk_new("a", &(sim_disk_options){ .seed = 1 }), *copy;
        faults fail = {
            { { .call = SIM_DISK_SYNC_FOLDER, .pass = pass, .times = 2, .v = { .err = EIO } },
              { .call = SIM_DISK_REMOVE, .times = 1, .v = { .err = EIO } } }
        };
        mrd_session_store s;
        mrd_timescale scale;
        mrd_why why = { 0 };
        struct stat st;

        sim_disk_set_before(d, before, &fail);
        CHECK_ERR("first", mrd_session_store_open(&s, STORE, MRD_SYNC_GROUP, &scale, NULL), MRD_IO);
        mrd_session_store_fini(&s);
        CHECK_INT(fail.v[1].asked, 1);
        CHECK_INT(stat(pass == 0 ? STORE : STORE "/sessions", &st), 0);
        sim_disk_kill(d);
        CHECK_ERR("second", mrd_session_store_open(&s, STORE, MRD_SYNC_GROUP, &scale, &why),
                  MRD_IO);
        CHECK(strstr(why.text, "cannot sync") != NULL);
        mrd_session_store_fini(&s);
        CHECK_ERR("third", mrd_session_store_open(&s, STORE, MRD_SYNC_GROUP, &scale, NULL), MRD_OK);
        copy = sim_disk_durable_copy(d, "", NULL, "b");
        CHECK_INT(stat("/sim/b/store/sessions", &st), 0);
        CHECK_INT(stat("/sim/b/store/clock.json", &st), 0);
        sim_disk_free(copy);
        mrd_session_store_fini(&s);
        sim_disk_free(d);
    }
}

static bool
is_there(const char *dir, const char *name)
{
    char path[300];
    struct stat st;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return stat(path, &st) == 0;
}

static void
leave(const char *dir, const char *name)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    CHECK_ERR(name, mrd_write_file(path, (mrd_bytes){ (const uint8_t *) "{", 1 }, 0600, NULL),
              MRD_OK);
}

/* A process that is killed while it writes a file leaves a part of the file under a temporary name.
 * The next start must remove it. */
TEST(half_files_of_killed_writes_go)
{
    static const char *const halves[] = { "session.json.0123abcd.part",
                                          "clocks/i-1.json.89abcdef.part" };
    sim_disk *d = sim_disk_new("a", &(sim_disk_options){ .seed = 1, .type = EXT4_SUPER_MAGIC });
    mrd_session_store s;
    mrd_timescale scale;
    mrd_journal *j;
    mrd_err err;
    char *dir = store_with_frames(d, &s, &scale, 3, &j), *session = mrd_str_dup(mrd_str_of(dir));

    *strstr(session, "/journal") = '\0';
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    leave(STORE, "nodes.json.00000001.part");
    leave(STORE, "notes.part"); /* not ours */
    leave(session, "clocks/i-1.json");
    for (size_t i = 0; i < MRD_COUNT(halves); i++)
        leave(session, halves[i]);
    CHECK_INT(recover(&s, &scale, &err), 3);
    CHECK(!is_there(STORE, "nodes.json.00000001.part") && is_there(STORE, "notes.part"));
    for (size_t i = 0; i < MRD_COUNT(halves); i++)
        CHECK_ROW(halves[i], !is_there(session, halves[i]));
    CHECK(is_there(session, "clocks/i-1.json") && is_there(session, "session.json"));
    mrd_session_store_fini(&s);
    sim_disk_free(d);
    free(session);
    free(dir);
}

/* The name of a new segment depends on three directories. If one cannot be synced, this is
 * reported, and later frames are durable. */
TEST(a_name_that_cannot_be_synced_is_reported)
{
    for (unsigned pass = 0; pass < 3; pass++) {
        sim_disk *d = sim_disk_new("a", &(sim_disk_options){ .seed = 1 });
        faults fail = {
            { { .call = SIM_DISK_SYNC_FOLDER, .pass = pass, .times = 1, .v = { .err = EIO } } }
        };
        mrd_journal *j;
        mrd_why why = { 0 };

        CHECK_ERR("session", mrd_make_dirs_durable("/sim/a/s", NULL), MRD_OK);
        CHECK_ERR("journal", mrd_journal_open("/sim/a/s/journal/i-1", MRD_STR("i-1"), 5, &j, NULL),
                  MRD_OK);
        sim_disk_set_before(d, before, &fail);
        CHECK_ERR("frame", append(j, 0), MRD_OK);
        CHECK_ERR("sync", mrd_journal_sync(j, &why), MRD_IO);
        CHECK_INT(fail.v[0].asked, pass + 1);
        CHECK_ERR("frame again", append(j, 0), MRD_OK);
        CHECK_ERR("sync again", mrd_journal_sync(j, &why), MRD_OK);
        CHECK_INT(durable(d, "/sim/a/s/journal/i-1"), 1);
        CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
        sim_disk_free(d);
    }
}

/* After a failed sync the cache still has the unwritten data. A successor must not use it, because
 * it would acknowledge its repetition as stored. */
TEST(what_a_failed_sync_lost_is_not_found_again)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        sim_disk *d = sim_disk_new("a", &(sim_disk_options){ .seed = seed });
        faults fail = { { { .call = SIM_DISK_SYNC, .times = 1, .v = { .err = EIO } } } };
        mrd_journal_index x;
        mrd_journal *j;

        CHECK_ERR("session", mrd_make_dirs_durable("/sim/a/s", NULL), MRD_OK);
        CHECK_ERR("journal", mrd_journal_open("/sim/a/s/journal/i-1", MRD_STR("i-1"), 5, &j, NULL),
                  MRD_OK);
        CHECK(append(j, 0) == MRD_OK && mrd_journal_sync(j, NULL) == MRD_OK);
        sim_disk_set_before(d, before, &fail);
        CHECK(append(j, 1) == MRD_OK && append(j, 2) == MRD_OK);
        CHECK_ERR("sync", mrd_journal_sync(j, NULL), MRD_IO);
        CHECK_ERR("scan", mrd_journal_scan("/sim/a/s/journal/i-1", &x, NULL), MRD_OK);
        CHECK_INT(x.n, 1);
        CHECK_INT(x.bad_bytes, 0);
        mrd_journal_index_fini(&x);
        CHECK(append(j, 1) == MRD_OK && append(j, 2) == MRD_OK);
        CHECK_ERR("sync again", mrd_journal_sync(j, NULL), MRD_OK);
        CHECK_INT(durable(d, "/sim/a/s/journal/i-1"), 3);
        CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
        sim_disk_free(d);
    }
}

/* If a sync of a completely written file or of a directory fails, the failure is reported, and does
 * not affect the next attempt. */
TEST(files_and_folders_are_durable_or_told)
{
    sim_disk *d = sim_disk_new("a", &(sim_disk_options){ .seed = 1 });
    faults fail = { { { .call = SIM_DISK_SYNC_FOLDER, .times = 1, .v = { .err = EIO } } } };
    mrd_bytes text = { (const uint8_t *) "x", 1 };
    struct stat st;
    sim_disk *copy;
    mrd_why why = { 0 };

    sim_disk_set_before(d, before, &fail);
    CHECK_ERR("folder", mrd_make_dirs_durable("/sim/a/x/y", &why), MRD_IO);
    CHECK(strstr(why.text, "cannot sync /sim/a") != NULL);
    CHECK_ERR("again", mrd_make_dirs_durable("/sim/a/x/y", NULL), MRD_OK);
    copy = sim_disk_durable_copy(d, "", NULL, "b");
    CHECK_INT(stat("/sim/b/x/y", &st), 0);
    sim_disk_free(copy);
    fail = (faults){ { { .call = SIM_DISK_SYNC_FOLDER, .times = 1, .v = { .err = ENOSPC } } } };
    CHECK_ERR("file", mrd_write_file_durable("/sim/a/x/f", text, 0600, &why), MRD_FULL);
    CHECK_ERR("again", mrd_write_file_durable("/sim/a/x/f", text, 0600, NULL), MRD_OK);
    copy = sim_disk_durable_copy(d, "", NULL, "b");
    CHECK_INT(stat("/sim/b/x/f", &st), 0);
    sim_disk_free(copy);
    fail = (faults){ { { .call = SIM_DISK_SYNC_FOLDER, .times = 9, .v = { .err = EINVAL } } } };
    CHECK_ERR("a file system that cannot", mrd_write_file_durable("/sim/a/x/g", text, 0600, NULL),
              MRD_OK);
    sim_disk_free(d);
}

/* The second of two frames in one write fails, and its part cannot be truncated. The segment is
 * abandoned, with a first frame that was never synced. */
TEST(a_segment_given_up_tells_those_that_were_not_synced)
{
    sim_disk *d = sim_disk_new("a", &(sim_disk_options){ .seed = 1 });
    uint8_t data[2][MRD_FRAME_HEADER + 200];
    mrd_frame f[2] = { frame(0, data[0]), frame(1, data[1]) };
    mrd_journal_chunk chunks[2] = { { &f[0], { data[0], sizeof(data[0]) } },
                                    { &f[1], { data[1], sizeof(data[1]) } } };
    faults fail = { {
        { .call = SIM_DISK_WRITE, .pass = 1, .times = 1, .v = { .limited = true, .at_most = 300 } },
        { .call = SIM_DISK_WRITE, .pass = 3, .times = 1, .v = { .err = EIO } },
        { .call = SIM_DISK_SIZE, .times = 1, .v = { .err = EIO } },
    } };
    mrd_journal *j;

    CHECK_ERR("session", mrd_make_dirs_durable("/sim/a/s", NULL), MRD_OK);
    CHECK_ERR("journal", mrd_journal_open("/sim/a/s/journal/i-1", MRD_STR("i-1"), 5, &j, NULL),
              MRD_OK);
    sim_disk_set_before(d, before, &fail);
    CHECK_INT(mrd_journal_append_many(j, chunks, 2, NULL), 1);
    CHECK_INT(fail.v[2].asked, 1);
    CHECK(mrd_journal_is_dirty(j));
    CHECK_ERR("sync", mrd_journal_sync(j, NULL), MRD_IO);
    CHECK_INT(durable(d, "/sim/a/s/journal/i-1"), 0);
    CHECK_INT(mrd_journal_append_many(j, chunks, 2, NULL), 2);
    CHECK_ERR("sync again", mrd_journal_sync(j, NULL), MRD_OK);
    CHECK_INT(durable(d, "/sim/a/s/journal/i-1"), 2);
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    sim_disk_free(d);
}

/* A full journal segment is synced and closed, and the next one cannot be created. No segment is
 * open then, but the name of the first segment must be durable. */
TEST(a_segment_that_ended_has_its_name)
{
    sim_disk *d = sim_disk_new("a", &(sim_disk_options){ .seed = 1 });
    uint8_t data[40][MRD_FRAME_HEADER + 200];
    mrd_frame f[40];
    mrd_journal_chunk chunks[40];
    faults fail = {
        { { .call = SIM_DISK_CREATE, .pass = 1, .times = 1, .v = { .err = ENOSPC } } }
    };
    mrd_journal *j;
    size_t n;

    for (unsigned i = 0; i < MRD_COUNT(f); i++) {
        f[i] = frame(i, data[i]);
        chunks[i] = (mrd_journal_chunk){ &f[i], { data[i], sizeof(data[i]) } };
    }
    CHECK(sizeof(data) > MRD_SEGMENT_BYTES);
    CHECK_ERR("session", mrd_make_dirs_durable("/sim/a/s", NULL), MRD_OK);
    CHECK_ERR("journal", mrd_journal_open("/sim/a/s/journal/i-1", MRD_STR("i-1"), 5, &j, NULL),
              MRD_OK);
    sim_disk_set_before(d, before, &fail);
    n = mrd_journal_append_many(j, chunks, MRD_COUNT(chunks), NULL);
    CHECK(n > 0 && n < MRD_COUNT(chunks) && fail.v[0].asked == 2);
    CHECK_ERR("sync", mrd_journal_sync(j, NULL), MRD_OK);
    CHECK_INT(durable(d, "/sim/a/s/journal/i-1"), n);
    CHECK_INT(mrd_journal_append_many(j, chunks + n, MRD_COUNT(chunks) - n, NULL),
              MRD_COUNT(chunks) - n);
    CHECK_ERR("sync", mrd_journal_sync(j, NULL), MRD_OK);
    CHECK_INT(durable(d, "/sim/a/s/journal/i-1"), MRD_COUNT(chunks));
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    sim_disk_free(d);
}

/* Some frames of one write are in a full segment, which was synced and closed. A failed sync of the
 * next segment is reported for the other frames only. Otherwise the journal would have events that
 * are not counted. */
TEST(a_full_segment_is_durable_whatever_the_next_is)
{
    sim_disk *d = sim_disk_new("a", &(sim_disk_options){ .seed = 1 });
    faults fail = {
        { { .call = SIM_DISK_SYNC_FOLDER, .pass = 3, .times = 1, .v = { .err = EIO } } }
    };
    mrd_journal_index x;
    uint64_t n = 0;
    mrd_journal *j;

    CHECK_ERR("session", mrd_make_dirs_durable("/sim/a/s", NULL), MRD_OK);
    CHECK_ERR("journal", mrd_journal_open("/sim/a/s/journal/i-1", MRD_STR("i-1"), 5, &j, NULL),
              MRD_OK);
    sim_disk_set_before(d, before, &fail);
    while (mrd_journal_durable(j) == 0 && n < 100)
        CHECK_ERR("frame", append(j, n++), MRD_OK);
    CHECK_INT(mrd_journal_durable(j), n - 1); /* the last frame is in a new segment, not synced */
    CHECK_INT(mrd_journal_appended(j), n);
    CHECK_ERR("sync", mrd_journal_sync(j, NULL), MRD_IO);
    CHECK_INT(mrd_journal_durable(j), n - 1);
    CHECK_INT(durable(d, "/sim/a/s/journal/i-1"), n - 1);
    REQUIRE(mrd_journal_scan("/sim/a/s/journal/i-1", &x, NULL) == MRD_OK);
    CHECK_INT(x.n, n - 1);
    mrd_journal_index_fini(&x);
    CHECK_ERR("close", mrd_journal_close(j, NULL), MRD_OK);
    sim_disk_free(d);
}

#define MANY 60u

typedef struct {
    unsigned reported; /* atomic */
    bool stored[MANY];
} reports;

static void
on_stored(void *self, uint64_t ticket, const mrd_why *failed)
{
    reports *r = self;

    r->stored[ticket] = failed == NULL;
    __atomic_add_fetch(&r->reported, 1, __ATOMIC_RELEASE);
}

static void
on_closed(void *self, uint64_t session)
{
    (void) self;
    (void) session;
}

static void
hand_in(mrd_journals *w, const char *dir, uint64_t seq)
{
    uint8_t *data = malloc(MRD_FRAME_HEADER + 200);
    mrd_journals_frame f = { .ticket = seq,
                             .session = 5,
                             .journal = 1,
                             .instance_id = "i-1",
                             .dir = seq == 0 ? mrd_str_dup(mrd_str_of(dir)) : NULL,
                             .data = { data, MRD_FRAME_HEADER + 200 },
                             .owned = data };

    REQUIRE(data != NULL);
    f.frame = frame(seq, data);
    CHECK_ERR("append", mrd_journals_append(w, &f), MRD_OK);
}

/* Frames in several segments are pending, and only the names of the first segment can be synced.
 * Exactly the frames reported as stored are durable. */
TEST(what_is_reported_is_what_the_journal_has)
{
    sim_disk *d = sim_disk_new("a", &(sim_disk_options){ .seed = 1, .type = EXT4_SUPER_MAGIC });
    faults fail = {
        { { .call = SIM_DISK_SYNC_FOLDER, .pass = 3, .times = 1000, .v = { .err = EIO } } }
    };
    reports r = { 0 };
    mrd_session_store s;
    mrd_journals_options o = { .store = &s, .stored = on_stored, .closed = on_closed, .self = &r };
    bool found[MANY] = { false };
    mrd_timescale scale;
    mrd_journal_index x;
    mrd_journals *w;

    CHECK_ERR("store", mrd_session_store_open(&s, STORE, MRD_SYNC_GROUP, &scale, NULL), MRD_OK);
    CHECK_ERR("session", mrd_make_dirs_durable(STORE "/sessions/5", NULL), MRD_OK);
    sim_disk_set_before(d, before, &fail);
    CHECK_ERR("journals", mrd_journals_open(&o, &w, NULL), MRD_OK);
    for (unsigned i = 0; i < MANY; i++)
        hand_in(w, STORE "/sessions/5/journal/i-1", i);
    TEST_UNTIL(__atomic_load_n(&r.reported, __ATOMIC_ACQUIRE) == MANY);
    mrd_journals_close(w);
    REQUIRE(mrd_journal_scan(STORE "/sessions/5/journal/i-1", &x, NULL) == MRD_OK);
    for (size_t i = 0; i < x.n; i++)
        found[x.entries[i].frame.seq] = true;
    for (unsigned i = 0; i < MANY; i++)
        CHECK_INT(found[i], r.stored[i]);
    CHECK(r.stored[0] && !r.stored[MANY - 1]);
    mrd_journal_index_fini(&x);
    mrd_session_store_fini(&s);
    sim_disk_free(d);
}

/* A directory cannot be listed completely, but the unlisted files exist. No start may treat them as
 * removed. A session is complete, or counts as unreadable and keeps its artifacts. */
TEST(names_that_cannot_be_read_are_not_taken_for_none)
{
    sim_disk *d = sim_disk_new("a", &(sim_disk_options){ .seed = 1 });
    faults fail = { { { .call = SIM_DISK_LIST, .v = { .err = EIO } } } };
    unsigned refused = 0, unreadable = 0;
    mrd_session_store s;
    mrd_journal_index x;
    mrd_timescale scale;
    mrd_journal *j;
    char *dir = store_with_frames(d, &s, &scale, 10, &j);

    for (unsigned i = 10; i < 60; i++) /* several segments */
        CHECK_ERR("frame", append(j, i), MRD_OK);
    CHECK_ERR("sync", mrd_journal_sync(j, NULL), MRD_OK);
    mrd_journal_close(j, NULL);
    sim_disk_set_before(d, before, &fail);
    do {
        mrd_core *c = core_new(&scale);
        mrd_err err;

        fail.v[0].asked = 0;
        fail.v[0].times = 1;
        err = mrd_session_store_recover(&s, c, NULL);
        CHECK(err == MRD_OK || err == MRD_IO);
        refused += err != MRD_OK;
        unreadable += err == MRD_OK && c->unreadable == 1;
        /* Only one call fails, so the second attempt to read the session succeeds. */
        if (err == MRD_OK && c->unreadable == 1) {
            CHECK(c->n_sessions == 0 && mrd_core_withheld(c, c->unreadables[0].id) != NULL);
            mrd_session_store_recover_again(&s, c);
            CHECK(c->unreadable == 0);
        }
        if (err == MRD_OK) {
            REQUIRE(c->n_sessions == 1 && c->sessions[0]->n_parts == 1);
            CHECK_INT(mrd_part_frames(c->sessions[0]->parts[0]), 60);
        }
        mrd_core_free(c);
    } while (fail.v[0].asked > fail.v[0].pass++);
    CHECK(refused > 1 && unreadable > 1);
    fail.v[0] = (fault){ .call = SIM_DISK_LIST, .pass = 4, .times = 1, .v = { .err = EIO } };
    CHECK_ERR("journal", mrd_journal_scan(dir, &x, NULL), MRD_IO);
    fail.v[0].asked = 0;
    CHECK_ERR("the next segment", mrd_journal_open(dir, MRD_STR("i-1"), 5, &j, NULL), MRD_IO);
    sim_disk_free(d);
    mrd_session_store_fini(&s);
    free(dir);
}

/* The manifest of a session can be read, but not its newer log of artifacts. Artifacts in this log
 * must not count as unlisted, or they would be removed. */
TEST(a_session_whose_log_of_artifacts_cannot_be_read_counts)
{
    sim_disk *d = sim_disk_new("a", &(sim_disk_options){ .seed = 1 });
    mrd_session_store s;
    mrd_timescale scale;
    mrd_journal *j;
    char *dir = store_with_frames(d, &s, &scale, 10, &j), path[300];

    snprintf(path, sizeof(path), "%.*s/artifacts.log", (int) (strstr(dir, "/journal") - dir), dir);
    for (unsigned readable = 2; readable-- > 0;) {
        mrd_core *c = core_new(&scale);

        CHECK_ERR("start", mrd_session_store_recover(&s, c, NULL), MRD_OK);
        CHECK_INT(c->n_sessions, readable);
        CHECK_INT(c->unreadable, !readable);
        mrd_core_free(c);
        CHECK(mkdir(path, 0700) == 0 || readable == 0); /* what cannot be read */
    }
    (void) mrd_journal_close(j, NULL);
    sim_disk_free(d);
    mrd_session_store_fini(&s);
    free(dir);
}

TEST_MAIN()
