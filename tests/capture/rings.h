/* Runs the workload program and reads all rings of its directory to their ends, like an agent. */
#ifndef MRD_TESTS_CAPTURE_RINGS_H
#define MRD_TESTS_CAPTURE_RINGS_H

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include "capture/ring/ring_note.h"
#include "capture/ring/ring_read.h"
#include "tests/capture/counts.h"
#include "tests/check.h"
#include "tests/wait.h"

#define RINGS_MAX 512

typedef struct {
    char dir[256];
    counts *shared;
    char file[300];
    pid_t pid;
    size_t n;
    struct {
        char name[MRD_RING_NAME_MAX];
        mrd_ring_reader *r; /* NULL: done */
    } ring[RINGS_MAX];
    uint64_t events, unfinished, lost, begins, threads, foreign;
    uint64_t lost_by[MRD_RING_LOST_CAUSES];
    uint64_t noted, notes; /* losses of processes without a ring */
    char note_ident[MRD_RING_IDENT_MAX + 1];
    int32_t tid_seen[4096];
    int64_t worst_error_ns;
} rig;

static inline void
rig_start(rig *g)
{
    int fd;

    memset(g, 0, sizeof(*g));
    snprintf(g->dir, sizeof(g->dir), "/dev/shm/mrd-test-XXXXXX");
    if (mkdtemp(g->dir) == NULL)
        abort();
    snprintf(g->file, sizeof(g->file), "%s/counts", g->dir);
    fd = open(g->file, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(counts)) != 0)
        abort();
    g->shared = mmap(NULL, sizeof(counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* Starts the workload program. `env` has words such as "NAME=value", separated by spaces. */
static inline void
rig_run(rig *g, const char *mode, const char *amount, const char *env)
{
    char program[512], buf[512], *word, *save = NULL;

    snprintf(program, sizeof(program), "%s/bin/capture_workload", getenv("MERIDIAN_BUILD"));
    fflush(NULL);
    g->pid = fork();
    if (g->pid != 0)
        return;
    setpgid(0, 0);
    setenv("MERIDIAN_RING_DIR", g->dir, 1);
    setenv("MERIDIAN_ENABLE", "1", 1);
    snprintf(buf, sizeof(buf), "%s", env);
    for (word = strtok_r(buf, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save))
        putenv(word);
    execl(program, program, g->file, mode, amount, (char *) NULL);
    _exit(127);
}

/* Takes a note like an agent, by renaming it, so that the process makes a new one. */
static inline void
rig_take_note(rig *g, int dir, const char *file)
{
    char text[MRD_RING_NOTE_MAX + 1], taken[MRD_RING_NAME_MAX];
    mrd_ring_note_name name;
    mrd_ring_note note;
    ssize_t len;

    if (!mrd_ring_note_parse(file, &name) || name.taken != 0)
        return;
    name.taken = 1;
    mrd_ring_note_print(&name, taken);
    CHECK_INT(renameat(dir, file, dir, taken), 0);
    len = readlinkat(dir, taken, text, sizeof(text));
    if (test_check(len > 0 && mrd_ring_note_read((mrd_str){ text, (size_t) len }, &note), __FILE__,
                   __LINE__, file, "a note")) {
        CHECK(note.first.ns > 0 && note.first.ns <= note.last.ns);
        g->noted += note.count;
        snprintf(g->note_ident, sizeof(g->note_ident), MRD_STR_FMT, MRD_STR_ARG(note.ident));
        g->notes++;
    }
    CHECK_INT(unlinkat(dir, taken, 0), 0);
}

static inline void
rig_scan(rig *g)
{
    DIR *dir = opendir(g->dir);
    struct dirent *e;

    while (dir != NULL && (e = readdir(dir)) != NULL) {
        mrd_ring_name name;
        mrd_why why;
        size_t i = 0;
        mrd_err err;

        rig_take_note(g, dirfd(dir), e->d_name);
        if (!mrd_ring_name_parse(e->d_name, &name))
            continue;
        while (i < g->n && strcmp(g->ring[i].name, e->d_name) != 0)
            i++;
        if (i < g->n || g->n == RINGS_MAX)
            continue;
        err = mrd_ring_open(dirfd(dir), e->d_name, NULL, &g->ring[i].r, &why);
        if (err == MRD_OK) {
            mrd_ring_name_print(&name, g->ring[i].name);
            g->n++;
        } else if (err != MRD_AGAIN && err != MRD_NOTFOUND) { /* not filled yet, or abandoned */
            CHECK_ERR(why.text, err, MRD_OK);
        }
    }
    if (dir != NULL)
        closedir(dir);
}

static inline void
rig_take(rig *g, mrd_ring_reader *r, const mrd_ring_event *ev)
{
    mrd_str name = ev->name != 0 ? mrd_ring_text(r, ev->name) : ev->name_text;

    if (ev->kind == MRD_REC_LOSS) {
        g->lost += ev->value;
        g->lost_by[ev->flags & 7] += ev->value;
        return;
    }
    if (ev->kind != MRD_REC_END)
        CHECK(name.len > 0);
    g->events += ev->kind == MRD_REC_SPAN || ev->kind == MRD_REC_INSTANT;
    g->begins += ev->kind == MRD_REC_BEGIN;
    g->unfinished += ev->kind == MRD_REC_SPAN && ev->dur_ns == MRD_RING_DUR_NONE;
    for (size_t i = 0; i < 4096; i++) {
        if (g->tid_seen[i] == 0) {
            g->tid_seen[i] = ev->tid;
            g->threads++;
        }
        if (g->tid_seen[i] == ev->tid)
            break;
    }
}

/* Reads all rings once. Returns true if any had records. */
static inline bool
rig_drain(rig *g, bool dead)
{
    bool some = false;

    for (size_t i = 0; i < g->n; i++) {
        mrd_ring_reader *r = g->ring[i].r;
        mrd_ring_step step = MRD_RING_AGAIN;
        mrd_ring_event ev;
        mrd_ring_stats st;
        mrd_why why = { .text = "" };

        if (r == NULL)
            continue;
        if (dead)
            mrd_ring_assume_dead(r);
        while ((step = mrd_ring_next(r, &ev, &why)) == MRD_RING_MORE || step == MRD_RING_LOST) {
            rig_take(g, r, &ev);
            some = true;
        }
        CHECK_ROW(why.text, step != MRD_RING_BAD);
        mrd_ring_get_stats(r, &st);
        if (st.clock_error_ns > g->worst_error_ns)
            g->worst_error_ns = st.clock_error_ns;
        CHECK_INT(st.clock_steps, 0);
        CHECK_ERR("release", mrd_ring_release(r), MRD_OK);
        if (step == MRD_RING_END || step == MRD_RING_BAD) {
            int dir_fd = open(g->dir, O_RDONLY | O_DIRECTORY);

            CHECK_ERR("remove", mrd_ring_remove(r, dir_fd, g->ring[i].name, NULL), MRD_OK);
            close(dir_fd);
            mrd_ring_close(r);
            g->ring[i].r = NULL;
        }
    }
    return some;
}

/* Waits for all descendants. Returns true if the program itself ended with success. */
static inline bool
rig_reap(rig *g)
{
    int status = 0, own = -1;
    pid_t pid;

    while ((pid = waitpid(-1, &status, 0)) > 0)
        if (pid == g->pid)
            own = status;
    return WIFEXITED(own) && WEXITSTATUS(own) == 0;
}

/* Returns true if the program ended or stopped itself. Does not reap it. */
static inline bool
rig_ended(rig *g)
{
    siginfo_t info = { 0 };

    return waitid(P_PID, (id_t) g->pid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid == g->pid;
}

/* Reads the rings while the program runs, and then to their ends. */
static inline bool
rig_follow(rig *g)
{
    bool ok;

    while (!rig_ended(g)) {
        rig_scan(g);
        (void) rig_drain(g, false);
        test_look_again();
    }
    ok = rig_reap(g);
    rig_scan(g);
    (void) rig_drain(g, true);
    return ok;
}

static inline void
rig_stop(rig *g)
{
    DIR *dir = opendir(g->dir);
    struct dirent *e;

    for (size_t i = 0; i < g->n; i++)
        mrd_ring_close(g->ring[i].r);
    munmap(g->shared, sizeof(counts));
    while (dir != NULL && (e = readdir(dir)) != NULL)
        if (e->d_name[0] != '.')
            unlinkat(dirfd(dir), e->d_name, 0);
    if (dir != NULL)
        closedir(dir);
    CHECK_INT(rmdir(g->dir), 0);
}

#endif
