/* Tests the copy of a session to a directory of shared storage, on a simulated disk with failures
 * and kills. If an attempt reports success, the copy must be durable, whatever earlier attempts
 * left. */
#include "tests/check.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "aggregator/export/export_folder.h"
#include "aggregator/export/exporter.h"
#include "base/sys/file.h"
#include "base/sys/out.h"
#include "tests/sim/disk.h"
#include "tests/wait.h"

unsigned mrd_planted; /* needed by tests/sim/planted; 0 means that no bug is planted */

static const char *const names[] = { "a/b/one", "a/two", "three", "session.json" };

/* A fault of the disk: the call with the number `at` fails, or the process dies in it. 0 means no
 * fault. */
typedef struct {
    unsigned at, asked;
    bool dies, syncs; /* syncs: of directories only */
} fault;

static void
before(void *self, const sim_disk_op *op, sim_disk_verdict *v)
{
    fault *f = self;

    if ((!f->syncs || op->call == SIM_DISK_SYNC_FOLDER) && ++f->asked == f->at) {
        v->dies = f->dies;
        v->err = EIO;
    }
}

static bool
goes_on(void *self)
{
    (void) self;
    return true;
}

static mrd_err
attempt(void)
{
    mrd_export_folder_options o = {
        .target = "/sim/shared/out", .below = "day/s", .owner = -1, .going_on = goes_on
    };
    mrd_export_folder *f = NULL;
    uint64_t bytes = 0;
    mrd_err err = mrd_export_folder_open(&o, &f, NULL);

    for (size_t i = 0; i < MRD_COUNT(names) && err == MRD_OK; i++) {
        char from[100];

        snprintf(from, sizeof(from), "/sim/store/%s", names[i]);
        err = mrd_export_folder_put(f, names[i], from, &bytes, NULL);
    }
    if (err == MRD_OK)
        err = mrd_export_folder_finish(f, NULL, 0, NULL);
    mrd_export_folder_close(f);
    return err;
}

/* Returns the number of exported files that are on the medium. The manifest must be the last of
 * them, because readers take it as the sign of a complete export. */
static size_t
durable(const sim_disk *d)
{
    sim_disk *copy = sim_disk_durable_copy(d, "out/day/s", NULL, "medium");
    bool manifest = false;
    size_t n = 0;

    for (size_t i = 0; i < MRD_COUNT(names); i++) {
        mrd_buf text = { 0 };
        char path[100];

        snprintf(path, sizeof(path), "/sim/medium/%s", names[i]);
        if (mrd_file_read(path, 100, &text, NULL) == MRD_OK) {
            CHECK(text.len == strlen(names[i]) && memcmp(text.p, names[i], text.len) == 0);
            manifest = manifest || i + 1 == MRD_COUNT(names);
            n++;
        }
        mrd_buf_fini(&text);
    }
    sim_disk_free(copy);
    CHECK(!manifest || n == MRD_COUNT(names));
    return n;
}

/* Returns false if there is no call with this number. */
static bool
fails_at(fault f)
{
    sim_disk *store = sim_disk_new("store", &(sim_disk_options){ .seed = 1 });
    sim_disk *d = sim_disk_new("shared", &(sim_disk_options){ .seed = 1 });
    mrd_err err;

    for (size_t i = 0; i < MRD_COUNT(names); i++) {
        char path[100];

        snprintf(path, sizeof(path), "/sim/store/%s", names[i]);
        CHECK_ERR("file",
                  mrd_write_file(path, (mrd_bytes){ (const uint8_t *) names[i], strlen(names[i]) },
                                 0600, NULL),
                  MRD_OK);
    }
    CHECK_ERR("target", mrd_make_dirs_durable("/sim/shared/out", NULL), MRD_OK);
    sim_disk_set_before(d, before, &f);
    err = attempt();
    if (err == MRD_OK)
        CHECK_INT(durable(d), MRD_COUNT(names));
    else
        (void) durable(d);
    sim_disk_kill(d);
    sim_disk_set_before(d, NULL, NULL);
    CHECK_ERR("the next attempt", attempt(), MRD_OK);
    CHECK_INT(durable(d), MRD_COUNT(names));
    sim_disk_free(d);
    sim_disk_free(store);
    return f.asked >= f.at;
}

/* An attempt created names but could not sync them, or was killed before. The next attempt finds
 * them. They are lost in a power failure unless that attempt syncs them. */
TEST(what_is_exported_is_durable_whatever_became_of_earlier_attempts)
{
    static const fault rows[] = { { .dies = true }, { .dies = false }, { .syncs = true } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        fault f = rows[i];

        do
            f.at++;
        while (fails_at(f));
        CHECK(f.at > 10);
    }
}

/* ---- The exporter ---- */

typedef struct {
    bool over, failed; /* over: atomic */
    uint64_t files;
} ending;

static void
on_began(void *self, uint64_t session)
{
    (void) self;
    (void) session;
}

static void
on_done(void *self, uint64_t session, uint64_t files, uint64_t bytes, const mrd_why *failed)
{
    ending *e = self;

    (void) session;
    (void) bytes;
    e->failed = failed != NULL;
    e->files = files;
    __atomic_store_n(&e->over, true, __ATOMIC_RELEASE);
}

static void
on_stalled(void *self, uint64_t session, const char *target, mrd_dur_ns quiet)
{
    (void) self;
    (void) session;
    (void) target;
    (void) quiet;
}

static ending
run_exporter(const mrd_session_store *store, const mrd_session *s)
{
    ending e = { 0 };
    mrd_exporter_options o = { .store = store,
                               .target = "/sim/shared",
                               .path = "{session}",
                               .began = on_began,
                               .done = on_done,
                               .stalled = on_stalled,
                               .self = &e };
    mrd_exporter *x = NULL;

    CHECK_ERR("exporter", mrd_exporter_open(&o, &x, NULL), MRD_OK);
    CHECK(mrd_exporter_start(x, s, NULL));
    TEST_UNTIL(__atomic_load_n(&e.over, __ATOMIC_ACQUIRE));
    mrd_exporter_close(x);
    return e;
}

static void
fails_to_list(void *self, const sim_disk_op *op, sim_disk_verdict *v)
{
    fault *f = self;

    if (op->call == SIM_DISK_LIST && ++f->asked == f->at)
        v->err = EIO;
}

/* If a directory of the session cannot be listed completely, the export must fail. Otherwise the
 * copy would lack files without notice. */
TEST(a_session_that_cannot_be_listed_is_not_exported)
{
    sim_disk *d = sim_disk_new("shared", &(sim_disk_options){ .seed = 1 });
    sim_disk *own = sim_disk_new("store", &(sim_disk_options){ .seed = 1 });
    mrd_session_store store = { .dir = (char *) (uintptr_t) "/sim/store" };
    mrd_session *s = calloc(1, sizeof(*s));
    fault f = { .at = 0 };
    unsigned failures = 0;
    ending e;

    REQUIRE(s != NULL);
    s->id = 1;
    snprintf(s->text, sizeof(s->text), "one");
    CHECK_ERR("folders", mrd_make_dirs("/sim/store/sessions/one/a/b", NULL), MRD_OK);
    for (size_t i = 0; i < MRD_COUNT(names); i++) {
        char path[100];

        snprintf(path, sizeof(path), "/sim/store/sessions/one/%s", names[i]);
        CHECK_ERR("file",
                  mrd_write_file(path, (mrd_bytes){ (const uint8_t *) names[i], strlen(names[i]) },
                                 0600, NULL),
                  MRD_OK);
    }
    sim_disk_set_before(own, fails_to_list, &f);
    do {
        f.at++;
        f.asked = 0;
        e = run_exporter(&store, s);
        failures += e.failed;
        if (!e.failed)
            CHECK_INT(e.files, MRD_COUNT(names));
    } while (f.asked >= f.at);
    CHECK(!e.failed && failures > MRD_COUNT(names));
    sim_disk_free(own);
    sim_disk_free(d);
    free(s);
}

TEST_MAIN()
