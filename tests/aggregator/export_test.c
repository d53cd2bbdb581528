/* Tests exports of sessions into a directory. The export runs in a process of its own, which is
 * killed before each system call that changes something (ptrace). Users have put all kinds of files
 * at the destination, and one user renames files and makes links all the time. A copy must be
 * complete or reported as missing. No file is written twice, nothing is written outside of the
 * destination, and no owner or permission changes. */
#include "tests/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include <linux/fs.h>
#include <linux/ptrace.h>

#include "aggregator/core/common/text.h"
#include "aggregator/export/exporter.h"
#include "base/buf.h"
#include "tests/wait.h"

#define EVE    54321 /* user id of the job's owner, and of an attacker */
#define OTHER  54322
#define BIG    ((1u << 20) + 17)
#define FILE_N 9

static const char *const files[FILE_N] = { "profile/system_profile.pftrace",
                                           "profile/tables/events/part-0.parquet",
                                           "profile/tables/losses.parquet",
                                           "profile/tables/_manifest.json",
                                           "profile/SHA256SUMS",
                                           "i-a_pid_7/model.part",
                                           "i-a_pid_7/viewer/a b\nc.json",
                                           "i-a_pid_7/neff/model.neff",
                                           "session.json" };
static const char *const not_exported[] = { "journal/i-a/0.log", "clocks/x", "artifacts.log",
                                            "profile/report.json.0123abcd.part" };

static uint64_t
seed_of(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static uint64_t
first_seed(void)
{
    const char *text = getenv("MRD_SEED");
    uint64_t seed = text == NULL ? 1 : strtoull(text, NULL, 10);

    printf("MRD_SEED=%" PRIu64 "\n", seed);
    return seed * 2654435761u + 1;
}

/* ---- Files ---- */

static char *
join(const char *a, const char *b)
{
    char *path = NULL;

    if (asprintf(&path, "%s/%s", a, b) < 0)
        abort();
    return path;
}

/* Makes a file. Returns false if another object prevents it. */
static bool
try_file(const char *top, const char *name, size_t size, unsigned content)
{
    char *path = join(top, name);
    bool made;
    FILE *f;

    for (size_t i = strlen(top) + 1; path[i] != '\0'; i++) {
        if (path[i] == '/') {
            path[i] = '\0';
            (void) mkdir(path, 0755);
            path[i] = '/';
        }
    }
    f = fopen(path, "wbx");
    for (size_t i = 0; f != NULL && i < size; i++)
        putc((int) ((i * 31 + content) & 0xff), f);
    made = f != NULL && fclose(f) == 0;
    free(path);
    return made;
}

static void
make_file(const char *top, const char *name, size_t size, unsigned content)
{
    char *path = join(top, name);

    (void) unlink(path);
    free(path);
    if (!try_file(top, name, size, content))
        abort();
}

static size_t
size_of(unsigned i)
{
    return i == 0 ? BIG : 100 + i;
}

static void
make_session(const char *store, const char *id, unsigned content)
{
    char *top = join(store, "sessions"), *dir = join(top, id);

    (void) mkdir(store, 0700);
    (void) mkdir(top, 0700);
    (void) mkdir(dir, 0700);
    for (unsigned i = 0; i < FILE_N; i++)
        make_file(dir, files[i], size_of(i), content + i);
    for (unsigned i = 0; i < MRD_COUNT(not_exported); i++)
        make_file(dir, not_exported[i], 10, 0);
    free(top);
    free(dir);
}

static bool
same_bytes(const char *a, const char *b)
{
    FILE *x = fopen(a, "rb"), *y = fopen(b, "rb");
    bool same = x != NULL && y != NULL;
    static char p[65536], q[65536];
    size_t n = 1;

    while (same && n > 0) {
        n = fread(p, 1, sizeof(p), x);
        same = fread(q, 1, sizeof(q), y) == n && memcmp(p, q, n) == 0;
    }
    if (x != NULL)
        fclose(x);
    if (y != NULL)
        fclose(y);
    return same;
}

/* Appends a tree as text: name, type, mode, owner, links, size, time and bytes, without following
 * links. */
static void
describe(const char *path, mrd_buf *to)
{
    struct dirent **names = NULL;
    struct stat st;
    int n;

    if (lstat(path, &st) != 0)
        return;
    mrd_buf_fmt(to, "%s %o %u:%u %llu %lld.%09ld %lld\n", path, st.st_mode, st.st_uid, st.st_gid,
                (unsigned long long) st.st_ino, (long long) st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
                (long long) st.st_size);
    if (!S_ISDIR(st.st_mode) || (n = scandir(path, &names, NULL, alphasort)) < 0)
        return;
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i]->d_name, ".") != 0 && strcmp(names[i]->d_name, "..") != 0) {
            char *below = join(path, names[i]->d_name);

            describe(below, to);
            free(below);
        }
        free(names[i]);
    }
    free(names);
}

static unsigned
count_files(const char *path)
{
    struct dirent **names = NULL;
    struct stat st;
    unsigned found = 0;
    int n;

    if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode) ||
        (n = scandir(path, &names, NULL, alphasort)) < 0)
        return 1;
    for (int i = 0; i < n; i++) {
        char *below = join(path, names[i]->d_name);

        if (strcmp(names[i]->d_name, ".") != 0 && strcmp(names[i]->d_name, "..") != 0)
            found += count_files(below);
        free(below);
        free(names[i]);
    }
    free(names);
    return found;
}

/* Counts the lines of the tree's description that contain `with`. */
static unsigned
count_entries(const char *path, const char *with)
{
    mrd_buf text = { 0 };
    unsigned n = 0;

    describe(path, &text);
    for (const char *p = mrd_buf_cstr(&text); (p = strstr(p, with)) != NULL; p++)
        n++;
    mrd_buf_fini(&text);
    return n;
}

/* ---- One export in its own process ---- */

typedef struct {
    const char *store, *target, *id;
    const char *job;  /* "user=eve uid=54321" */
    const char *path; /* of --export-path */
    bool owner;
    const mrd_convert_state *conversion; /* state for process 7 on i-a; NULL for none */
    const char *artifact;                /* an artifact of the node; NULL for none */
} task;

typedef struct {
    bool done, killed;
    uint64_t files, bytes;
    char text[MRD_WHY_MAX];
    unsigned changes; /* number of calls that changed something */
} outcome;

static int answer_fd;

static void
on_began(void *self, uint64_t session)
{
    (void) self;
    (void) session;
}

static void
on_done(void *self, uint64_t session, uint64_t n, uint64_t bytes, const mrd_why *failed)
{
    outcome o = { .done = failed == NULL, .files = n, .bytes = bytes };

    (void) self;
    (void) session;
    if (failed != NULL)
        snprintf(o.text, sizeof(o.text), "%s", failed->text);
    if (write(answer_fd, &o, sizeof(o)) != (ssize_t) sizeof(o))
        abort();
}

static void
on_stalled(void *self, uint64_t session, const char *target, mrd_dur_ns quiet)
{
    (void) self;
    (void) session;
    (void) target;
    (void) quiet;
}

static void
put_conversion(mrd_session *s, const task *t)
{
    mrd_conversion *v = calloc(1, sizeof(*v));

    if (v == NULL || (s->artifacts = calloc(1, sizeof(*s->artifacts))) == NULL)
        _exit(3);
    *v = (mrd_conversion){ .process_id = 7, .state = *t->conversion };
    mrd_text_set(v->instance_id, sizeof(v->instance_id), "i-a");
    s->conversions.v = v;
    s->conversions.n = 1;
    if (t->artifact != NULL)
        mrd_text_set(s->artifacts[s->n_artifacts++].name, MRD_TEXT_MAX, t->artifact);
}

static void
export_in_child(const task *t, int to)
{
    mrd_session_store store = { .dir = (char *) (uintptr_t) t->store };
    mrd_exporter_options o = { .store = &store,
                               .target = t->target,
                               .owner = t->owner,
                               .path = t->path,
                               .began = on_began,
                               .done = on_done,
                               .stalled = on_stalled };
    mrd_session *s = calloc(1, sizeof(*s));
    mrd_exporter *e = NULL;
    struct stat st;

    answer_fd = to;
    if (s == NULL)
        _exit(3);
    s->id = 1;
    snprintf(s->text, sizeof(s->text), "%s", t->id);
    if (t->job != NULL && mrd_strlist_add(&s->jobs, mrd_str_of(t->job)) != MRD_OK)
        _exit(3);
    if (t->conversion != NULL)
        put_conversion(s, t);
    if (mrd_exporter_open(&o, &e, NULL) != MRD_OK || !mrd_exporter_start(e, s, NULL))
        _exit(4);
    for (int64_t end = test_deadline(); test_in_time(end); test_look_again())
        if (fstat(to, &st) == 0 && st.st_size > 0)
            break;
    mrd_exporter_close(e);
    _exit(0);
}

static bool
changes(const struct ptrace_syscall_info *call)
{
    switch (call->entry.nr) {
    case SYS_openat:
        return (call->entry.args[2] & O_CREAT) != 0;
    case SYS_write:
    case SYS_mkdirat:
    case SYS_unlinkat:
    case SYS_fchown:
    case SYS_fchmod:
    case SYS_fchownat:
    case SYS_utimensat:
    case SYS_fsync:
    case SYS_renameat:
    case SYS_renameat2:
        return true;
    default:
        return false;
    }
}

/* Kills the process before change number kill_at (0: never). False if tracing is not allowed
 * here. */
static bool
follow(pid_t child, unsigned kill_at, outcome *o)
{
    int status;
    pid_t who;

    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status) ||
        ptrace(PTRACE_SETOPTIONS, child, 0,
               PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL) != 0)
        return false;
    ptrace(PTRACE_SYSCALL, child, 0, 0);
    while ((who = waitpid(-1, &status, __WALL)) > 0) {
        struct ptrace_syscall_info call;
        int sig = 0;

        if (!WIFSTOPPED(status)) {
            if (who == child)
                break;
            continue;
        }
        if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
            if (ptrace(PTRACE_GET_SYSCALL_INFO, who, sizeof(call), &call) > 0 &&
                call.op == PTRACE_SYSCALL_INFO_ENTRY && who != child && changes(&call) &&
                ++o->changes == kill_at) {
                o->killed = true;
                kill(child, SIGKILL);
                continue;
            }
        } else if (WSTOPSIG(status) != SIGTRAP && WSTOPSIG(status) != SIGSTOP) {
            sig = WSTOPSIG(status);
        }
        ptrace(PTRACE_SYSCALL, who, 0, sig);
    }
    return true;
}

static bool
export_once(const task *t, bool traced, unsigned kill_at, outcome *o)
{
    FILE *answer = tmpfile();
    pid_t child;
    bool ok = true;
    int status;

    *o = (outcome){ 0 };
    if (answer == NULL || (child = fork()) < 0)
        abort();
    if (child == 0) {
        if (traced && (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0 || raise(SIGSTOP) != 0))
            _exit(5);
        export_in_child(t, fileno(answer));
    }
    if (traced)
        ok = follow(child, kill_at, o);
    else
        ok = waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (ok) {
        outcome got;

        rewind(answer);
        if (fread(&got, sizeof(got), 1, answer) == 1) {
            got.changes = o->changes;
            got.killed = o->killed;
            *o = got;
        }
    }
    fclose(answer);
    return ok;
}

/* ---- Checks ---- */

/* Checks that all files of the session, and nothing else, are at `at` with the right bytes. */
static bool
is_whole(const task *t, const char *at)
{
    char *top = join(t->store, "sessions"), *dir = join(top, t->id);
    bool whole = true;

    for (unsigned i = 0; i < FILE_N && whole; i++) {
        char *a = join(dir, files[i]), *b = join(at, files[i]);
        struct stat st;

        whole = lstat(b, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 && same_bytes(a, b);
        if (!whole)
            fprintf(stderr, "not as it should be: %s\n", b);
        free(a);
        free(b);
    }
    free(top);
    free(dir);
    return whole;
}

/* A file under its final name is complete. session.json comes last. An owner's copy is private. */
static void
check_interrupted(const task *t, const char *at, const char *row)
{
    char *top = join(t->store, "sessions"), *dir = join(top, t->id),
         *last = join(at, "session.json");
    struct stat st;

    for (unsigned i = 0; i < FILE_N; i++) {
        char *a = join(dir, files[i]), *b = join(at, files[i]);

        if (lstat(b, &st) == 0)
            CHECK_ROW(row, same_bytes(a, b));
        free(a);
        free(b);
    }
    if (lstat(last, &st) == 0)
        CHECK_ROW(row, is_whole(t, at));
    if (t->owner && lstat(at, &st) == 0) {
        CHECK_ROW(row, (st.st_mode & 07777) == 0700);
        CHECK_ROW(row, st.st_uid == 0 || (st.st_uid == EVE && is_whole(t, at)));
    }
    free(top);
    free(dir);
    free(last);
}

typedef struct {
    char store[80], target[80], outside[80];
} ground;

/* Makes a test's directories, in memory if possible, because syncs to a disk would be slow. */
static void
begin(ground *g)
{
    if (access("/dev/shm", W_OK) == 0)
        (void) setenv("TMPDIR", "/dev/shm", 0);
    snprintf(g->store, sizeof(g->store), "%s/store", test_tmp());
    snprintf(g->target, sizeof(g->target), "%s/target", test_tmp());
    snprintf(g->outside, sizeof(g->outside), "%s/outside", test_tmp());
    (void) chmod(test_tmp(), 0755);
    (void) mkdir(g->target, 0755);
    (void) mkdir(g->outside, 0755);
}

static void
remove_below(const char *path)
{
    nftw(path, test_tmp_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static unsigned kills;

/* Kills at change n, then at random changes, until all is exported. No file is written twice. */
static bool
kill_and_finish(const task *t, const char *at, unsigned n, uint64_t *draw)
{
    ino_t before[FILE_N];
    char row[64];
    outcome o;

    snprintf(row, sizeof(row), "%s, killed before change %u", t->owner ? "owner" : "target", n);
    remove_below(t->target);
    (void) mkdir(t->target, 0755);
    do {
        if (!export_once(t, true, n, &o))
            return false;
        kills += o.killed;
        if (!o.killed)
            break; /* the export had fewer changes */
        check_interrupted(t, at, row);
        n = draw == NULL ? 0 : (unsigned) (seed_of(draw) % 60) + 1;
    } while (n > 0 && draw != NULL && seed_of(draw) % 4 != 0);
    for (unsigned i = 0; i < FILE_N; i++) {
        char *path = join(at, files[i]);
        struct stat st;

        before[i] = lstat(path, &st) == 0 ? st.st_ino : 0;
        free(path);
    }
    if (!export_once(t, false, 0, &o))
        return false;
    if (!o.done)
        fprintf(stderr, "%s: %s\n", row, o.text);
    CHECK_ROW(row, o.done);
    CHECK_ROW(row, o.files == FILE_N);
    CHECK_ROW(row, is_whole(t, at));
    CHECK_INT(count_files(t->target), FILE_N); /* and nothing more than these */
    for (unsigned i = 0; i < FILE_N; i++) {
        char *path = join(at, files[i]);
        struct stat st;

        CHECK_ROW(row, lstat(path, &st) == 0 && (before[i] == 0 || before[i] == st.st_ino));
        CHECK_ROW(row, !t->owner || (st.st_uid == EVE && (st.st_mode & 07777) == 0600));
        free(path);
    }
    return true;
}

TEST(killed_before_every_change_it_ends_whole_and_writes_nothing_twice)
{
    uint64_t draw = first_seed();
    ground g;

    begin(&g);
    make_session(g.store, "s-1", 3);
    for (int owner = 0; owner < (geteuid() == 0 ? 2 : 1); owner++) {
        task t = { .store = g.store,
                   .target = g.target,
                   .id = "s-1",
                   .owner = owner == 1,
                   .job = "user=eve uid=54321",
                   .path = "{user}/{session}" };
        char *at = join(g.target, "eve/s-1");
        outcome whole;
        unsigned n;

        if (!export_once(&t, true, 0, &whole))
            SKIP("this machine does not let a process trace its child");
        if (!whole.done)
            fprintf(stderr, "%s\n", whole.text);
        REQUIRE(whole.done && whole.changes > 8 * FILE_N);
        for (n = 1; n <= whole.changes; n++)
            REQUIRE(kill_and_finish(&t, at, n, NULL));
        for (unsigned i = 0; i < 60; i++)
            REQUIRE(
                kill_and_finish(&t, at, (unsigned) (seed_of(&draw) % whole.changes) + 1, &draw));
        free(at);
    }
    printf("%u exports were killed\n", kills);
    CHECK(kills > 300);
}

/* ---- Attacks: users put links and other objects into the target directory ---- */

static void
plant(const ground *g, const char *at, uint64_t *draw, bool user)
{
    char *out = join(g->outside, seed_of(draw) % 2 ? "folder" : "file");
    unsigned kind = (unsigned) (seed_of(draw) % 6);
    char *path = mrd_str_dup(mrd_str_of(at));

    for (size_t i = strlen(g->target) + 1; path[i] != '\0'; i++) {
        if (path[i] == '/') {
            path[i] = '\0';
            if (mkdir(path, 0755) == 0 && user)
                (void) !chown(path, EVE, EVE);
            path[i] = '/';
        }
    }
    if (kind < 2)
        (void) !symlink(out, path);
    else if (kind == 2)
        (void) !link(out, path);
    else if (kind == 3 && mkdir(path, 0777) == 0)
        (void) !chown(path, seed_of(draw) % 2 ? EVE : OTHER, 0);
    else if (kind == 4)
        (void) mkfifo(path, 0666);
    else if (kind == 5)
        (void) try_file(path, seed_of(draw) % 2 ? "x" : "profile/SHA256SUMS", 5, 1);
    free(path);
    free(out);
}

/* Makes an export's directories with contents outside of the target, where a link would lead. */
static void
make_outside(const ground *g)
{
    char *folder = join(g->outside, "folder");

    make_file(g->outside, "file", 40, 9);
    (void) mkdir(folder, 0755);
    make_session(folder, "s-1", 77);
    for (unsigned i = 0; i < FILE_N; i++)
        make_file(folder, files[i], 7, 9);
    free(folder);
}

TEST(nothing_outside_is_touched_whatever_lies_in_its_way)
{
    uint64_t draw = first_seed();
    unsigned done = 0, told = 0;
    mrd_buf before = { 0 }, after = { 0 };
    ground g;

    if (geteuid() != 0)
        SKIP("several users need root");
    begin(&g);
    make_session(g.store, "s-1", 3);
    make_outside(&g);
    for (unsigned round = 0; round < 300; round++) {
        task t = { .store = g.store,
                   .target = g.target,
                   .id = "s-1",
                   .owner = round % 2 == 0,
                   .job = "user=eve uid=54321",
                   .path = "{user}/{session}" };
        char *user = join(g.target, "eve"), *at = join(user, "s-1");
        outcome o;

        remove_below(g.target);
        (void) mkdir(g.target, 0755);
        (void) chmod(g.target, seed_of(&draw) % 3 == 0 ? 01777 : 0755);
        for (unsigned i = 0, n = 1 + (unsigned) (seed_of(&draw) % 3); i < n; i++) {
            unsigned where = (unsigned) (seed_of(&draw) % (FILE_N + 3));
            char *path = where == 0   ? mrd_str_dup(mrd_str_of(user))
                         : where == 1 ? mrd_str_dup(mrd_str_of(at))
                         : where == 2 ? join(at, "profile")
                                      : join(at, files[where - 3]);

            plant(&g, path, &draw, seed_of(&draw) % 2 == 0);
            free(path);
        }
        mrd_buf_reset(&before); /* a planted link may have led outside of the target */
        describe(g.outside, &before);
        REQUIRE(export_once(&t, false, 0, &o));
        mrd_buf_reset(&after);
        describe(g.outside, &after);
        CHECK(strcmp(mrd_buf_cstr(&after), mrd_buf_cstr(&before)) == 0);
        if (o.done) {
            CHECK(is_whole(&t, at));
            CHECK(!t.owner || count_entries(at, " 54321:") == count_entries(at, at));
        } else {
            CHECK(strstr(o.text, "eve") != NULL); /* which one */
        }
        *(o.done ? &done : &told) += 1;
        if (test_failures > 0)
            fprintf(stderr, "round %u: done=%d %s\n", round, o.done, o.text);
        REQUIRE(test_failures == 0);
        free(user);
        free(at);
    }
    printf("%u exports done, %u refused\n", done, told);
    CHECK(done > 20 && told > 20);
    mrd_buf_fini(&before);
    mrd_buf_fini(&after);
}

/* Swaps names below `dir` for links to the outside and back, as fast as possible. */
static void
swap_for_ever(const char *dir, const char *outside, uint64_t draw)
{
    static const char *const names[] = { "s-1",
                                         "s-1/profile",
                                         "s-1/profile/tables",
                                         "s-1/i-a_pid_7",
                                         "s-1/session.json",
                                         "s-1/.meridian-part",
                                         "s-1/profile/.meridian-part" };

    if (setgid(EVE) != 0 || setuid(EVE) != 0 || chdir(dir) != 0)
        _exit(1);
    for (unsigned i = 0;; i++) {
        const char *name = names[seed_of(&draw) % MRD_COUNT(names)];

        test_pace((int64_t) (seed_of(&draw) % 2000));
        (void) !symlink(outside, "trap");
        if (renameat2(AT_FDCWD, "trap", AT_FDCWD, name, RENAME_EXCHANGE) != 0)
            continue;
        if (seed_of(&draw) % 2)
            (void) !renameat2(AT_FDCWD, "trap", AT_FDCWD, name, RENAME_EXCHANGE);
        else if (seed_of(&draw) % 2)
            (void) !rename("trap", name);
    }
}

/* Exports while a user swaps names: in the user's directory, or (shared) in a writable target. */
static void
race(unsigned shared, bool owner, uint64_t *draw)
{
    mrd_buf before = { 0 }, after = { 0 };
    char *dir, *out, *at;
    unsigned done = 0;
    pid_t eve;
    ground g;

    begin(&g);
    make_session(g.store, "s-1", 3);
    make_outside(&g);
    describe(g.outside, &before);
    (void) chmod(g.target, shared ? 0777 : 0755);
    dir = shared ? mrd_str_dup(mrd_str_of(g.target)) : join(g.target, "eve");
    out = join(g.outside, "folder");
    at = join(dir, "s-1");
    if (!shared) {
        (void) mkdir(dir, 0755);
        (void) !chown(dir, EVE, EVE);
    }
    if ((eve = fork()) == 0)
        swap_for_ever(dir, out, seed_of(draw));
    for (unsigned i = 0; i < 30 && test_failures == 0; i++) {
        task t = { .store = g.store,
                   .target = g.target,
                   .id = "s-1",
                   .owner = owner,
                   .job = "user=eve uid=54321",
                   .path = shared ? "{session}" : "{user}/{session}" };
        outcome o;

        if (!export_once(&t, false, 0, &o)) {
            CHECK(false);
            break;
        }
        done += o.done;
        CHECK(o.done || o.text[0] != '\0');
        kill(eve, SIGSTOP); /* stop the attacker, because the following checks use names as root */
        waitpid(eve, NULL, WUNTRACED);
        mrd_buf_reset(&after);
        describe(g.outside, &after);
        CHECK(strcmp(mrd_buf_cstr(&after), mrd_buf_cstr(&before)) == 0);
        remove_below(at);
        kill(eve, SIGCONT);
    }
    kill(eve, SIGKILL);
    waitpid(eve, NULL, 0);
    printf("shared=%u owner=%d: 30 exports, %u done\n", shared, owner, done);
    remove_below(g.target);
    remove_below(g.outside);
    mrd_buf_fini(&before);
    mrd_buf_fini(&after);
    free(dir);
    free(out);
    free(at);
}

TEST(a_user_who_swaps_folders_for_links_reaches_nothing_outside)
{
    uint64_t draw = first_seed();

    if (geteuid() != 0)
        SKIP("several users need root");
    for (unsigned i = 0; i < 4; i++)
        race(i & 1, (i & 2) != 0, &draw);
}

TEST(a_folder_that_is_the_users_is_compared)
{
    char *at, *file;
    outcome o;
    ground g;

    if (geteuid() != 0)
        SKIP("several users need root");
    begin(&g);
    make_session(g.store, "s-1", 3);
    at = join(g.target, "s-1");
    file = join(at, files[1]);
    {
        task t = { .store = g.store,
                   .target = g.target,
                   .id = "s-1",
                   .owner = true,
                   .job = "uid=54321",
                   .path = "{session}" };
        mrd_buf before = { 0 }, after = { 0 };
        char *top = join(g.store, "sessions/s-1");

        /* the user made the directory before the export */
        REQUIRE(mkdir(at, 0700) == 0 && chown(at, EVE, EVE) == 0);
        REQUIRE(export_once(&t, false, 0, &o));
        CHECK(!o.done && o.files == 0 && strstr(o.text, "user 54321's already") != NULL &&
              strstr(o.text, "remove or rename") != NULL);
        CHECK_INT(count_entries(at, at), 1);
        remove_below(at);
        /* changed owner, and checked again: all files count */
        REQUIRE(export_once(&t, false, 0, &o) && o.done);
        CHECK_INT(o.files, FILE_N);
        describe(at, &before);
        REQUIRE(export_once(&t, false, 0, &o));
        CHECK(o.done && o.files == FILE_N && o.bytes == 0);
        /* session.json may still change */
        make_file(top, "session.json", 222, 8);
        REQUIRE(export_once(&t, false, 0, &o));
        CHECK(o.done);
        /* merged again */
        make_file(top, files[1], 222, 8);
        REQUIRE(export_once(&t, false, 0, &o));
        CHECK(!o.done && strstr(o.text, files[1]) != NULL);
        describe(at, &after);
        CHECK_TEXT(mrd_buf_cstr(&after), mrd_buf_cstr(&before));
        /* the user removed the copy, so it must be exported again */
        remove_below(at);
        REQUIRE(export_once(&t, false, 0, &o));
        CHECK(o.done && o.bytes > 0 && is_whole(&t, at));
        free(top);
        mrd_buf_fini(&before);
        mrd_buf_fini(&after);
    }
    free(at);
    free(file);
}

/* Results of a viewer that was killed are incomplete, so they must not be exported. */
TEST(what_may_be_half_of_a_viewers_results_is_left_out)
{
    static const struct {
        const char *name;
        mrd_convert_state state;
        const char *artifact;
        bool goes;
    } rows[] = {
        { "done", MRD_CONVERT_DONE, NULL, true },
        { "failed", MRD_CONVERT_FAILED, NULL, false },
        { "asked again", MRD_CONVERT_RUNNING, "neff/model.neff", false },
        { "the viewer is gone", MRD_CONVERT_NOT_INSTALLED, NULL, false },
        { "the node's own", MRD_CONVERT_NOT_INSTALLED, "viewer/a b\nc.json", true },
    };
    ground g;

    begin(&g);
    make_session(g.store, "s-1", 3);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        task t = { .store = g.store,
                   .target = g.target,
                   .id = "s-1",
                   .path = "{session}",
                   .conversion = &rows[i].state,
                   .artifact = rows[i].artifact };
        char *at = join(g.target, "s-1"), *result = join(at, files[6]);
        struct stat st;
        outcome o;

        remove_below(at);
        REQUIRE(export_once(&t, false, 0, &o) && o.done);
        CHECK_ROW(rows[i].name, o.files + !rows[i].goes == FILE_N);
        CHECK_ROW(rows[i].name, (lstat(result, &st) == 0) == rows[i].goes);
        free(result);
        free(at);
    }
}

TEST(words_of_a_job_stay_one_component)
{
    static const char letters[] = "./\\\t\x01\x7f {}~$abc-_\xc3\xa9=";
    uint64_t draw = first_seed();
    ground g;

    begin(&g);
    make_session(g.store, "s-1", 3);
    for (unsigned round = 0; round < 60; round++) {
        char job[80] = "user=";
        task t = { .store = g.store,
                   .target = g.target,
                   .id = "s-1",
                   .job = job,
                   .path = "{user}/{session}" };
        char *user = NULL, *at;
        struct dirent **names = NULL;
        outcome o;

        for (size_t i = 5, n = 5 + seed_of(&draw) % 60; i < n; i++)
            job[i] = letters[seed_of(&draw) % (sizeof(letters) - 1)];
        remove_below(g.target);
        (void) mkdir(g.target, 0755);
        REQUIRE(export_once(&t, false, 0, &o) && o.done);
        REQUIRE(scandir(g.target, &names, NULL, alphasort) == 3); /* ".", ".." and this one */
        for (unsigned i = 0; i < 3; i++) {
            const char *name = names[i]->d_name;

            if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
                CHECK(strspn(name, "abcdefghijklmnopqrstuvwxyz-_.") == strlen(name) &&
                      name[0] != '.');
                user = join(g.target, name);
            }
        }
        REQUIRE(user != NULL);
        at = join(user, "s-1");
        CHECK(is_whole(&t, at));
        for (unsigned i = 0; i < 3; i++)
            free(names[i]);
        free(names);
        free(user);
        free(at);
    }
}

TEST_MAIN()
