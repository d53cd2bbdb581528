/* Runs a program on the simulated runtime, with or without libmeridian, and reads its rings. */
#include "tests/capture/nrt_run.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/event_type.h"
#include "base/num.h"
#include "capture/ring/ring_read.h"
#include "tests/check.h"

/* ---- Running a program ---- */

const char *
build_dir(void)
{
    return getenv("MERIDIAN_BUILD");
}

void
set_library_path(const char *flavour)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/lib/%s", build_dir(), flavour);
    setenv("LD_LIBRARY_PATH", path, 1);
    setenv("SIMNRT_INSTANCE", "inf2.xlarge", 1);
    setenv("SIMNRT_TIME_SCALE", "0.1", 1);
    setenv("NEURON_RT_LOG_LEVEL", "off", 1);
}

const char *preload_first = "";

void
preload_list(char *to, size_t room)
{
    static const char *const inits[] = { "__asan_init", "__tsan_init" };
    Dl_info info;
    void *init;

    *to = '\0';
    for (size_t i = 0; i < MRD_COUNT(inits); i++)
        if ((init = dlsym(RTLD_DEFAULT, inits[i])) != NULL && dladdr(init, &info) != 0)
            snprintf(to, room, "%s:", info.dli_fname);
    if (preload_first[0] != '\0')
        snprintf(to + strlen(to), room - strlen(to), "%s/lib/%s:", build_dir(), preload_first);
    snprintf(to + strlen(to), room - strlen(to), "%s/lib/libmeridian.so", build_dir());
}

bool errors_too;

int
run_program(const char *prog, const char *mode, const char *capture, const char *dir, char *to,
            size_t room)
{
    char path[PATH_MAX], rings[PATH_MAX], preload[PATH_MAX];
    int fds[2], status = -1;
    size_t used = 0;
    ssize_t n;
    pid_t pid;

    snprintf(path, sizeof(path), "%s/bin/%s", build_dir(), prog);
    preload_list(preload, sizeof(preload));
    snprintf(rings, sizeof(rings), "%s/rings", dir);
    mkdir(dir, 0755);
    mkdir(rings, 0755);
    if (pipe(fds) != 0 || (pid = fork()) < 0)
        return -1;
    if (pid == 0) {
        setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* leaks of the program are intended */
        if (capture != NULL) {
            setenv("LD_PRELOAD", preload, 1);
            setenv("MERIDIAN_CAPTURE", capture, 1);
            setenv("MERIDIAN_RING_DIR", rings, 1);
        }
        dup2(fds[1], 1);
        if (errors_too)
            dup2(fds[1], 2);
        close(fds[0]);
        close(fds[1]);
        if (chdir(dir) == 0)
            execl(path, path, mode, (char *) NULL);
        _exit(99);
    }
    close(fds[1]);
    while (used + 1 < room && (n = read(fds[0], to + used, room - 1 - used)) > 0)
        used += (size_t) n;
    to[used] = '\0';
    close(fds[0]);
    waitpid(pid, &status, 0);
    return status;
}

/* ---- Reading the rings that libmeridian wrote in the program ---- */

static void
append(char **to, const char *text, size_t len)
{
    size_t had = *to == NULL ? 0 : strlen(*to);

    *to = realloc(*to, had + len + 1);
    if (len > 0)
        memcpy(*to + had, text, len);
    (*to)[had + len] = '\0';
}

static void
append_args(mrd_ring_reader *r, const mrd_ring_event *ev, char **to)
{
    mrd_ring_items items = { ev->body, ev->body_len };
    mrd_ring_arg a;
    char text[PATH_MAX + 64];

    while (mrd_ring_item_next(&items, &a)) {
        mrd_str key = a.key != 0 ? mrd_ring_text(r, a.key) : a.key_text;
        int n;

        if (a.type == MRD_ITEM_TEXT)
            n = snprintf(text, sizeof(text), " %.*s=%.*s", (int) key.len, key.p, (int) a.v.text.len,
                         a.v.text.p);
        else
            n = snprintf(text, sizeof(text), " %.*s=%lld", (int) key.len, key.p, (long long) a.v.i);
        append(to, text, (size_t) n);
    }
}

static void
take(mrd_ring_reader *r, const mrd_ring_event *ev, recorded *to)
{
    mrd_str name = ev->name != 0 ? mrd_ring_text(r, ev->name) : ev->name_text;
    char **list = ev->kind == MRD_REC_SPAN && (ev->flags & MRD_RECF_API) != 0 ? &to->spans
                  : ev->kind == MRD_REC_NOTICE                                ? &to->notices
                  : ev->kind == MRD_REC_MODEL                                 ? &to->models
                  : ev->kind == MRD_REC_BEGIN                                 ? &to->begins
                  : ev->kind == MRD_REC_END                                   ? &to->ends
                                                                              : NULL;

    if (list == &to->spans ||
        list == &to->begins) { /* recorded names are accepted as event types */
        char word[128];
        const char *words[] = { word };

        snprintf(word, sizeof(word), "%.*s", (int) name.len, name.p);
        CHECK_ERR(word, mrd_types_check(words, 1, NULL, 0, NULL), MRD_OK);
    }
    if (ev->kind == MRD_REC_BLOB)
        append(&to->texts, (const char *) ev->body, ev->body_len);
    if (list == NULL)
        return;
    append(list, "|", 1);
    append(list, name.p, name.len);
    append_args(r, ev, list);
}

recorded
read_rings(const char *dir)
{
    static recorded kept[8]; /* valid until the case ends */
    static size_t used;
    recorded to = { 0 };
    char path[PATH_MAX];
    struct dirent *e;
    DIR *d;

    append(&to.spans, "", 0);
    append(&to.texts, "", 0);
    append(&to.notices, "", 0);
    append(&to.models, "", 0);
    append(&to.begins, "", 0);
    append(&to.ends, "", 0);
    snprintf(path, sizeof(path), "%s/rings", dir);
    if ((d = opendir(path)) == NULL)
        return to;
    while ((e = readdir(d)) != NULL) {
        mrd_ring_reader *r = NULL;
        mrd_ring_stats stats;
        mrd_ring_event ev;
        mrd_ring_step step;
        mrd_why why = { 0 };

        if (strstr(e->d_name, ".ring") == NULL)
            continue;
        if (mrd_ring_open(dirfd(d), e->d_name, NULL, &r, &why) != MRD_OK) {
            fprintf(stderr, "%s: %s\n", e->d_name, why.text);
            test_failures++;
            continue;
        }
        mrd_ring_assume_dead(r);
        to.rings++;
        while ((step = mrd_ring_next(r, &ev, &why)) == MRD_RING_MORE || step == MRD_RING_LOST)
            if (step == MRD_RING_MORE)
                take(r, &ev, &to);
        CHECK_INT(step, MRD_RING_END);
        mrd_ring_get_stats(r, &stats);
        to.lost += stats.lost_total;
        mrd_ring_close(r);
    }
    closedir(d);
    kept[used++ % MRD_COUNT(kept)] = to;
    return to;
}

/* Does not use strstr, because AddressSanitizer's version scans 20 MB of text in each call. */
size_t
count_text(const char *text, const char *what)
{
    const char *end = text + strlen(text);
    size_t n = 0;

    for (const char *p = text; (p = memmem(p, (size_t) (end - p), what, strlen(what))) != NULL; p++)
        n++;
    return n;
}

size_t
count_spans(const recorded *rec, const char *name)
{
    char with[80];

    snprintf(with, sizeof(with), "|%s ", name);
    return count_text(rec->spans, with);
}
