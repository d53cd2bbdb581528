#include "capture/api/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "capture/api/dump_spans.h"
#include "capture/api/stats.h"
#include "capture/api/thread.h"
#include "capture/meridian.h"
#include "capture/process.h"
#include "capture/ring/ring_read.h"
#include "capture/text.h"

#define FLUSH_AT  (1u << 20)
#define RINGS_MAX 65536

static struct {
    _Atomic uint32_t lock;
    char path[MRD_SETTING_TEXT];
    FILE *out;                     /* open between the first dump and the finished one */
    int pid;                       /* that opened it */
    bool any;                      /* an event was written, so the next needs a comma */
    uint64_t lost, taken, endless; /* endless: ends that were dropped because there was no room */
    int set_by;                    /* pid that set the path; a child of fork writes its own file */
    struct {
        char path[MRD_SETTING_TEXT + 128];
        dev_t dev;
        ino_t ino;
        off_t trailer, size; /* offset of the last line */
        /* The state after the finished dump. A later dump continues from here. */
    } closed;
    /* Temporary paths. The lock protects them; they are not on the stack of a program's thread. */
    char ring[MRD_SETTING_TEXT + MRD_RING_NAME_MAX], expanded[MRD_SETTING_TEXT + 128];
    char file[MRD_SETTING_TEXT + 128];
    _Atomic int64_t period_ns, due_ns;
} dump = { .period_ns = 1000000000 };

typedef struct {
    mrd_ring_name *v;
    size_t n, cap; /* n counts all of them, also beyond cap */
} ring_list;

static bool
dump_lock(void)
{
    uint32_t me = (uint32_t) getpid(), seen = atomic_load(&dump.lock);

    /* the pid of a holder: after a fork, a lock that a thread of the parent held is free here */
    return seen != me && atomic_compare_exchange_strong(&dump.lock, &seen, me);
}

static void
dump_unlock(void)
{
    atomic_store_explicit(&dump.lock, 0, memory_order_release);
}

int
mrd_dump_set_file(const char *path)
{
    size_t len = strlen(path);

    if (len == 0 || len >= sizeof(dump.path))
        return mrd_fail(MERIDIAN_INVALID, "filename of %zu bytes", len);
    memcpy(dump.path, path, len + 1);
    dump.set_by = getpid();
    return MERIDIAN_OK;
}

void
mrd_dump_set_period(int64_t period_ns)
{
    atomic_store(&dump.period_ns, period_ns);
}

/* ---- one event as JSON ------------------------------------------------------------------------
 */

static void
put_us(mrd_text *t, const char *key, int64_t ns)
{
    uint64_t u = ns < 0 ? 0 : (uint64_t) ns;

    mrd_text_fmt(t, ",\"%s\":%" PRIu64 ".%03" PRIu64, key, u / 1000, u % 1000);
}

static mrd_str
name_of(const mrd_ring_reader *r, const mrd_ring_event *ev)
{
    mrd_str name = ev->name != 0 ? mrd_ring_text(r, ev->name) : ev->name_text;

    return name.len > 0 ? name : mrd_str_of("(unnamed)");
}

static void
put_value(mrd_text *t, const mrd_ring_reader *r, const mrd_ring_arg *a)
{
    switch (a->type) {
    case MRD_ITEM_I64:
        mrd_text_fmt(t, "%" PRId64, a->v.i);
        break;
    case MRD_ITEM_U64:
        mrd_text_fmt(t, "%" PRIu64, a->v.u);
        break;
    case MRD_ITEM_F64:
        if (a->v.d - a->v.d == 0)
            mrd_text_fmt(t, "%.17g", a->v.d);
        else
            mrd_text_fmt(t, "\"%g\"", a->v.d); /* JSON has no inf and no nan */
        break;
    case MRD_ITEM_BOOL:
        mrd_text_fmt(t, a->v.u ? "true" : "false");
        break;
    case MRD_ITEM_ID: {
        mrd_str text = mrd_ring_text(r, a->v.id);

        mrd_text_json_n(t, text.p == NULL ? "" : text.p, text.len);
        break;
    }
    default:
        mrd_text_json_n(t, a->v.text.p, a->v.text.len);
        break;
    }
}

static void
put_args(mrd_text *t, const mrd_ring_reader *r, const mrd_ring_event *ev)
{
    mrd_ring_items items = { ev->body, ev->body_len };
    mrd_ring_arg a;
    bool first = true;

    while (mrd_ring_item_next(&items, &a)) {
        mrd_str key = a.key != 0 ? mrd_ring_text(r, a.key) : a.key_text;

        mrd_text_fmt(t, first ? ",\"args\":{" : ",");
        mrd_text_json_n(t, key.p == NULL ? "" : key.p, key.len);
        mrd_text_fmt(t, ":");
        put_value(t, r, &a);
        first = false;
    }
    mrd_text_fmt(t, first ? "" : "}");
}

static void
put_start(mrd_text *t, const char *phase)
{
    mrd_text_fmt(t, dump.any ? ",\n{\"ph\":\"%s\",\"name\":" : "\n{\"ph\":\"%s\",\"name\":", phase);
    dump.any = true;
}

static void
put_place(mrd_text *t, const mrd_ring_event *ev)
{
    mrd_text_fmt(t, ",\"pid\":%d,\"tid\":%" PRId32, dump.pid, ev->tid);
    put_us(t, "ts", ev->ts.ns);
}

static void
put_head(mrd_text *t, const mrd_ring_reader *r, const mrd_ring_event *ev, const char *phase)
{
    mrd_str name = name_of(r, ev), domain = mrd_ring_text(r, ev->domain);

    put_start(t, phase);
    mrd_text_json_n(t, name.p, name.len);
    if (domain.len > 0) {
        mrd_text_fmt(t, ",\"cat\":");
        mrd_text_json_n(t, domain.p, domain.len);
    }
    put_place(t, ev);
}

static void
put_counter(mrd_text *t, const mrd_ring_event *ev)
{
    double d;

    memcpy(&d, &ev->value, sizeof(d));
    switch (ev->flags >> MRD_RECF_SHIFT) {
    case MRD_REC_F64:
        mrd_text_fmt(t, ",\"args\":{\"value\":%.17g}", d - d == 0 ? d : 0);
        break;
    case MRD_REC_I64:
        mrd_text_fmt(t, ",\"args\":{\"value\":%" PRId64 "}", (int64_t) ev->value);
        break;
    default:
        mrd_text_fmt(t, ",\"args\":{\"value\":%" PRIu64 "}", ev->value);
        break;
    }
}

/* ---- spans with their end in another record ---- */

/* The end has only the id, but readers of the format also join by name and category. */

static void
put_begin(mrd_text *t, const mrd_ring_reader *r, const mrd_ring_event *ev)
{
    mrd_str name = name_of(r, ev), domain = mrd_ring_text(r, ev->domain);

    put_head(t, r, ev, "b");
    mrd_text_fmt(t, ",\"id\":\"0x%" PRIx64 "\"", ev->value);
    (void) mrd_dump_span_begin(ev->value, name.p, name.len, domain.p, domain.len);
}

/* rest: the JSON after name and category. */
static void
put_end(mrd_text *t, const mrd_dump_span *span, const char *rest)
{
    put_start(t, "e");
    mrd_text_json(t, span->name);
    if (span->cat != NULL) {
        mrd_text_fmt(t, ",\"cat\":");
        mrd_text_json(t, span->cat);
    }
    mrd_text_add(t, rest, strlen(rest));
}

static void
end_span(mrd_text *t, const mrd_ring_reader *r, const mrd_ring_event *ev)
{
    mrd_text rest = { 0 };
    mrd_dump_span span;
    char *text;

    put_place(&rest, ev);
    mrd_text_fmt(&rest, ",\"id\":\"0x%" PRIx64 "\"", ev->value);
    put_args(&rest, r, ev);
    mrd_text_fmt(&rest, "}");
    if ((text = mrd_text_take(&rest)) == NULL)
        t->failed = true;
    else if (mrd_dump_span_take(ev->value, &span)) {
        put_end(t, &span, text);
        mrd_dump_span_free(&span);
        free(text);
        /* its begin is in a ring that is read later */
    } else if (!mrd_dump_end_keep(ev->value, text)) {
        dump.endless++;
    }
}

/* All rings were read: writes the ends with a begin that was found since. */
static void
put_kept_ends(mrd_text *t)
{
    size_t n;
    mrd_dump_end *ends = mrd_dump_ends(&n);

    for (size_t i = 0; i < n; i++) {
        mrd_dump_span span;

        if (!mrd_dump_span_take(ends[i].id, &span))
            continue;
        put_end(t, &span, ends[i].text);
        mrd_dump_span_free(&span);
        free(ends[i].text);
        ends[i].text = NULL;
    }
    mrd_dump_ends_compact();
}

/* ---- names ------------------------------------------------------------------------------------
 */

static void
put_name(mrd_text *t, const char *of, int32_t tid, mrd_str name)
{
    put_start(t, "M");
    mrd_text_json(t, of);
    mrd_text_fmt(t, ",\"pid\":%d,\"tid\":%" PRId32 ",\"args\":{\"name\":", dump.pid, tid);
    mrd_text_json_n(t, name.p, name.len);
    mrd_text_fmt(t, "}}");
}

static void
put_thread(mrd_text *t, const mrd_ring_reader *r, int32_t tid)
{
    mrd_str name = mrd_ring_thread_name(r, tid), exe = mrd_ring_ident(r, "exe");

    if (mrd_dump_thread_is_new(-1, "", 0)) { /* the first of this file */
        for (size_t i = exe.len; i > 0; i--)
            if (exe.p[i - 1] == '/') {
                exe = (mrd_str){ exe.p + i, exe.len - i };
                break;
            }
        put_name(t, "process_name", dump.pid, exe.len > 0 ? exe : mrd_str_of("process"));
    }
    if (name.len > 0 && mrd_dump_thread_is_new(tid, name.p, name.len))
        put_name(t, "thread_name", tid, name);
}

/* Blobs, models and notices are for the agent. Here models and notices become instants. */
static void
put_event(mrd_text *t, const mrd_ring_reader *r, const mrd_ring_event *ev)
{
    static const char scopes[] = "tpgt", flows[] = "stf";
    unsigned sub = (ev->flags >> MRD_RECF_SHIFT) & 3u;
    char phase[2] = "";

    switch (ev->kind) {
    case MRD_REC_SPAN:
        put_head(t, r, ev, ev->dur_ns == MRD_RING_DUR_NONE ? "B" : "X");
        if (ev->dur_ns != MRD_RING_DUR_NONE)
            put_us(t, "dur", ev->dur_ns);
        break;
    case MRD_REC_BEGIN:
        put_begin(t, r, ev);
        break;
    case MRD_REC_END:
        end_span(t, r, ev);
        return;
    case MRD_REC_COUNTER:
        put_head(t, r, ev, "C");
        put_counter(t, ev);
        break;
    case MRD_REC_FLOW:
        phase[0] = flows[sub < 3 ? sub : 2];
        put_head(t, r, ev, phase);
        mrd_text_fmt(t, ",\"id\":\"0x%" PRIx64 "\",\"bp\":\"e\"", ev->value);
        break;
    case MRD_REC_BLOB:
        return;
    default:
        put_head(t, r, ev, "i");
        mrd_text_fmt(t, ",\"s\":\"%c\"", ev->kind == MRD_REC_INSTANT ? scopes[sub] : 'p');
        break;
    }
    put_args(t, r, ev);
    mrd_text_fmt(t, "}");
}

/* ---- rings to file ----------------------------------------------------------------------------
 */

static int
flush_text(mrd_text *t)
{
    bool ok = !t->failed && (t->len == 0 || fwrite(t->p, 1, t->len, dump.out) == t->len);

    t->len = 0;
    return ok ? MERIDIAN_OK : mrd_fail(MERIDIAN_IO, "cannot write %s", dump.path);
}

/* Returns true if an earlier dump wrote this event. We do not empty a ring that an agent reads. */
static bool
written(const mrd_ring_reader *r, uint64_t *looked)
{
    mrd_ring_stats st;

    if (looked == NULL)
        return false;
    mrd_ring_get_stats(r, &st);
    if (st.read <= *looked)
        return true;
    *looked = st.read;
    return false;
}

static int
dump_ring(const mrd_ring_name *name, mrd_text *t)
{
    uint64_t *looked = NULL;
    char file[MRD_RING_NAME_MAX];
    mrd_ring_opts opts = MRD_RING_OPTS_DEFAULT;
    mrd_ring_reader *r = NULL;
    mrd_ring_event ev;
    mrd_ring_step step;
    int err = MERIDIAN_OK;
    int32_t tid = 0;
    mrd_err opened;

    mrd_ring_name_print(name, file);
    snprintf(dump.ring, sizeof(dump.ring), "%s/%s", mrd_proc_settings.ring_dir, file);
    if ((opened = mrd_ring_open(AT_FDCWD, dump.ring, &opts, &r, NULL)) == MRD_BUSY) {
        opts.flags = MRD_RING_PEEK;
        opened = mrd_ring_open(AT_FDCWD, dump.ring, &opts, &r, NULL);
        dump.taken++;
        looked = mrd_dump_looked((uint64_t) name->serial << 32 | (uint32_t) name->tid);
    }
    if (opened != MRD_OK)
        return MERIDIAN_OK; /* an agent has read it to its end and removed it */
    while (((step = mrd_ring_next(r, &ev, NULL)) == MRD_RING_MORE || step == MRD_RING_LOST) &&
           err == MERIDIAN_OK) {
        if (written(r, looked))
            continue;
        if (step == MRD_RING_LOST)
            dump.lost += ev.value;
        else
            put_event(t, r, &ev);
        if (ev.tid != tid && tid != 0)
            put_thread(t, r, tid);
        tid = ev.tid;
        if (t->len >= FLUSH_AT)
            err = flush_text(t);
    }
    if (tid != 0)
        put_thread(t, r, tid);
    (void) mrd_ring_release(r);
    mrd_ring_close(r);
    return err;
}

static void
note_ring(void *ctx, mrd_ring_writer *w)
{
    ring_list *list = ctx;

    if (list->n++ < list->cap) {
        mrd_ring_name *name = &list->v[list->n - 1];

        *name = (mrd_ring_name){ .pid = w->hdr->pid, .tid = w->hdr->tid };
        name->start_ticks = w->hdr->start_ticks;
        name->serial = w->name_serial;
        memcpy(name->boot_id, w->hdr->boot_id, sizeof(name->boot_id));
    }
}

/* Allocates outside the lock, because a signal handler that interrupted malloc may wait for the
 * lock. */
static void
list_rings(ring_list *list)
{
    mrd_proc_each_ring(note_ring, list);
    while (list->n > list->cap && list->cap < RINGS_MAX) {
        size_t cap = list->n < RINGS_MAX ? list->n : RINGS_MAX;
        mrd_ring_name *more = realloc(list->v, cap * sizeof(*more));

        if (more == NULL)
            break;
        list->v = more;
        list->cap = cap;
        list->n = 0;
        mrd_proc_each_ring(note_ring, list);
    }
    list->n = list->n < list->cap ? list->n : list->cap;
}

static int
cannot_write(int sys)
{
    return sys == 0 ? mrd_fail(MERIDIAN_IO, "cannot write %s", dump.path)
                    : mrd_fail(MERIDIAN_IO, "cannot write %s: error %d", dump.path, sys);
}

/* Replaces %h and %p. Returns true if the result has the process id. */
static bool
expand(const char *from, char *to, size_t size)
{
    struct utsname host = { 0 };
    bool has_pid = false;
    size_t n = 0;

    (void) uname(&host);
    host.nodename[strcspn(host.nodename, "/")] = '\0';
    for (; *from != '\0' && n + 1 < size; from++) {
        bool mark = *from == '%' && (from[1] == 'h' || from[1] == 'p');

        if (!mark)
            to[n++] = *from;
        else if (from[1] == 'h')
            n += (size_t) snprintf(to + n, size - n, "%s", host.nodename);
        else
            n += (size_t) snprintf(to + n, size - n, "%d", getpid());
        has_pid = has_pid || (mark && from[1] == 'p');
        from += mark;
    }
    to[n < size ? n : size - 1] = '\0';
    return has_pid;
}

/* Returns the file name of this process. A child of fork must not overwrite its parent's file. */
static const char *
file_name(void)
{
    char *path = dump.expanded;
    bool own = expand(dump.path, path, sizeof(dump.expanded)) || dump.set_by == getpid();
    size_t len = strlen(path), size = sizeof(dump.file);

    if (own)
        snprintf(dump.file, size, "%s", path);
    else if (len > 5 && strcmp(path + len - 5, ".json") == 0)
        snprintf(dump.file, size, "%.*s.%d.json", (int) len - 5, path, getpid());
    else
        snprintf(dump.file, size, "%s.%d", path, getpid());
    return dump.file;
}

/* Reopens the file of a finished dump of this process, positioned at its last line. */
static FILE *
open_again(const char *path)
{
    struct stat st;
    FILE *f = NULL;
    int fd;

    if (dump.closed.trailer == 0 || dump.pid != getpid() || strcmp(path, dump.closed.path) != 0 ||
        (fd = open(path, O_WRONLY | O_CLOEXEC)) < 0)
        return NULL;
    if (fstat(fd, &st) == 0 && st.st_dev == dump.closed.dev && st.st_ino == dump.closed.ino &&
        st.st_size == dump.closed.size && (f = fdopen(fd, "w")) != NULL &&
        fseeko(f, dump.closed.trailer, SEEK_SET) == 0)
        return f;
    if (f != NULL)
        fclose(f);
    else
        close(fd);
    return NULL;
}

static int
open_file(void)
{
    const char *path;
    int fd;

    if (dump.out != NULL && dump.pid == getpid())
        return MERIDIAN_OK;
    dump.out = NULL; /* a parent's file: do not touch its buffer */
    if (dump.pid != 0 && dump.pid != getpid())
        mrd_dump_spans_forget();
    path = file_name();
    if ((dump.out = open_again(path)) != NULL)
        return MERIDIAN_OK;
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || (dump.out = fdopen(fd, "w")) == NULL) {
        int sys = errno;

        if (fd >= 0)
            close(fd);
        return cannot_write(sys);
    }
    snprintf(dump.closed.path, sizeof(dump.closed.path), "%s", path);
    dump.pid = getpid();
    dump.any = false;
    dump.lost = dump.taken = dump.endless = 0;
    mrd_dump_threads_forget();
    return fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", dump.out) >= 0 ? MERIDIAN_OK
                                                                                 : cannot_write(0);
}

static int
close_file(void)
{
    off_t trailer = ftello(dump.out);
    struct stat st;
    size_t endless;
    bool ok;

    (void) mrd_dump_ends(&endless);
    ok = fprintf(dump.out,
                 "\n],\"otherData\":{\"meridian\":\"%s\",\"lost\":%" PRIu64
                 ",\"rings_read_by_agent\":%" PRIu64 ",\"ends_without_begin\":%" PRIu64
                 ",\"clock\":\"CLOCK_MONOTONIC_RAW\"}}\n",
                 MRD_RELEASE, dump.lost, dump.taken, dump.endless + endless) > 0 &&
         fflush(dump.out) == 0 && fstat(fileno(dump.out), &st) == 0;
    dump.closed.trailer = ok ? trailer : 0;
    if (ok) {
        dump.closed.dev = st.st_dev;
        dump.closed.ino = st.st_ino;
        dump.closed.size = st.st_size;
    }
    ok = fclose(dump.out) == 0 && ok;
    dump.out = NULL;
    return ok ? MERIDIAN_OK : cannot_write(0);
}

static int
dump_locked(bool finished)
{
    ring_list list = { 0 };
    mrd_text t = { 0 };
    int err = open_file();

    list_rings(&list);
    for (size_t i = 0; i < list.n && err == MERIDIAN_OK; i++)
        err = dump_ring(&list.v[i], &t);
    if (err == MERIDIAN_OK) {
        put_kept_ends(&t);
        err = flush_text(&t);
    }
    free(t.p);
    free(list.v);
    if (err == MERIDIAN_OK && fflush(dump.out) != 0)
        err = mrd_fail(MERIDIAN_IO, "cannot write %s", dump.path);
    if (finished && dump.out != NULL) {
        int closed = close_file();

        err = err != MERIDIAN_OK ? err : closed;
    }
    return err;
}

int
mrd_dump_now(bool finished)
{
    int err;

    if (!mrd_was_on())
        return mrd_fail(MERIDIAN_STATE, "profiling never ran");
    if (!dump_lock())
        return mrd_fail(MERIDIAN_STATE, "another dump is being written");
    err = dump_locked(finished);
    dump_unlock();
    return err;
}

void
mrd_dump_if_due(void)
{
    int64_t now = mrd_ring_clock_gettime(CLOCK_MONOTONIC_RAW);
    int64_t due = atomic_load(&dump.due_ns);
    int saved = errno;

    if (now < due ||
        !atomic_compare_exchange_strong(&dump.due_ns, &due, now + atomic_load(&dump.period_ns)))
        return;
    if (due != 0) /* the first call only starts the period */
        (void) mrd_dump_now(false);
    errno = saved;
}

/* A program that exits normally keeps the events since the last period. */
__attribute__((destructor(101))) static void
dump_at_exit(void)
{
    if ((mrd_extra_now() & MRD_EXTRA_DUMPS) != 0)
        (void) mrd_dump_now(true);
}
