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
    FILE *out; /* open from the first dump to the one with finished != 0 */
    int pid;   /* pid of the process that opened `out` */
    /* true after the first event was written, so that the next event is preceded by a comma */
    bool any;
    /* Numbers of events: lost, written, and ends of spans that were dropped for lack of memory. */
    uint64_t lost, taken, endless;
    int set_by; /* pid of the process that set `path`; a child of fork writes to another file */
    struct {
        char path[MRD_SETTING_TEXT + 128];
        dev_t dev;
        ino_t ino;
        off_t trailer, size; /* file size, and offset of the file's last line */
        /* The file as the last dump with finished != 0 left it. If it is unchanged, a later dump
         * continues it. */
    } closed;
    /* Temporary paths, which the lock protects. They are not on the stack, because the program's
     * threads may have small stacks. */
    char ring[MRD_SETTING_TEXT + MRD_RING_NAME_MAX], expanded[MRD_SETTING_TEXT + 128];
    char file[MRD_SETTING_TEXT + 128];
    _Atomic int64_t period_ns, due_ns;
} dump = { .period_ns = 1000000000 };

typedef struct {
    mrd_ring_name *v;
    size_t n, cap; /* `n` is the number of rings, of which at most `cap` are in `v` */
} ring_list;

static bool
dump_lock(void)
{
    uint32_t me = (uint32_t) getpid(), seen = atomic_load(&dump.lock);

    /* The lock holds the pid of its holder. So the child of a fork can take a lock that the parent
     * held. */
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

/* ---- one event as JSON ----------------------------------------------------------------------- */

static void
put_us(mrd_text *text, const char *key, int64_t ns)
{
    uint64_t u = ns < 0 ? 0 : (uint64_t) ns;

    mrd_text_fmt(text, ",\"%s\":%" PRIu64 ".%03" PRIu64, key, u / 1000, u % 1000);
}

static mrd_str
name_of(const mrd_ring_reader *reader, const mrd_ring_event *ev)
{
    mrd_str name = ev->name != 0 ? mrd_ring_text(reader, ev->name) : ev->name_text;

    return name.len > 0 ? name : mrd_str_of("(unnamed)");
}

static void
put_value(mrd_text *t, const mrd_ring_reader *reader, const mrd_ring_arg *arg)
{
    switch (arg->type) {
    case MRD_ITEM_I64:
        mrd_text_fmt(t, "%" PRId64, arg->v.i);
        break;
    case MRD_ITEM_U64:
        mrd_text_fmt(t, "%" PRIu64, arg->v.u);
        break;
    case MRD_ITEM_F64:
        if (arg->v.d - arg->v.d == 0)
            mrd_text_fmt(t, "%.17g", arg->v.d);
        else
            mrd_text_fmt(t, "\"%g\"", arg->v.d); /* JSON has no inf and no nan */
        break;
    case MRD_ITEM_BOOL:
        mrd_text_fmt(t, arg->v.u ? "true" : "false");
        break;
    case MRD_ITEM_ID: {
        mrd_str text = mrd_ring_text(reader, arg->v.id);

        mrd_text_json_n(t, text.p == NULL ? "" : text.p, text.len);
        break;
    }
    default:
        mrd_text_json_n(t, arg->v.text.p, arg->v.text.len);
        break;
    }
}

static void
put_args(mrd_text *text, const mrd_ring_reader *reader, const mrd_ring_event *ev)
{
    mrd_ring_items items = { ev->body, ev->body_len };
    mrd_ring_arg arg;
    bool first = true;

    while (mrd_ring_item_next(&items, &arg)) {
        mrd_str key = arg.key != 0 ? mrd_ring_text(reader, arg.key) : arg.key_text;

        mrd_text_fmt(text, first ? ",\"args\":{" : ",");
        mrd_text_json_n(text, key.p == NULL ? "" : key.p, key.len);
        mrd_text_fmt(text, ":");
        put_value(text, reader, &arg);
        first = false;
    }
    mrd_text_fmt(text, first ? "" : "}");
}

static void
put_start(mrd_text *text, const char *phase)
{
    mrd_text_fmt(text,
                 dump.any ? ",\n{\"ph\":\"%s\",\"name\":" : "\n{\"ph\":\"%s\",\"name\":", phase);
    dump.any = true;
}

static void
put_place(mrd_text *text, const mrd_ring_event *ev)
{
    mrd_text_fmt(text, ",\"pid\":%d,\"tid\":%" PRId32, dump.pid, ev->tid);
    put_us(text, "ts", ev->ts.ns);
}

static void
put_head(mrd_text *text, const mrd_ring_reader *reader, const mrd_ring_event *ev, const char *phase)
{
    mrd_str name = name_of(reader, ev), domain = mrd_ring_text(reader, ev->domain);

    put_start(text, phase);
    mrd_text_json_n(text, name.p, name.len);
    if (domain.len > 0) {
        mrd_text_fmt(text, ",\"cat\":");
        mrd_text_json_n(text, domain.p, domain.len);
    }
    put_place(text, ev);
}

static void
put_counter(mrd_text *text, const mrd_ring_event *ev)
{
    double d;

    memcpy(&d, &ev->value, sizeof(d));
    switch (ev->flags >> MRD_RECF_SHIFT) {
    case MRD_REC_F64:
        mrd_text_fmt(text, ",\"args\":{\"value\":%.17g}", d - d == 0 ? d : 0);
        break;
    case MRD_REC_I64:
        mrd_text_fmt(text, ",\"args\":{\"value\":%" PRId64 "}", (int64_t) ev->value);
        break;
    default:
        mrd_text_fmt(text, ",\"args\":{\"value\":%" PRIu64 "}", ev->value);
        break;
    }
}

/* ---- spans with their end in another record ---- */

/* An END record has only the span's id. The Trace Event format needs name and category in the end
 * event too, so the begin stores them. */

static void
put_begin(mrd_text *text, const mrd_ring_reader *reader, const mrd_ring_event *ev)
{
    mrd_str name = name_of(reader, ev), domain = mrd_ring_text(reader, ev->domain);

    put_head(text, reader, ev, "b");
    mrd_text_fmt(text, ",\"id\":\"0x%" PRIx64 "\"", ev->value);
    (void) mrd_dump_span_begin(ev->value, name.p, name.len, domain.p, domain.len);
}

/* Writes the end event of a span. `rest` is the JSON after name and category. */
static void
put_end(mrd_text *text, const mrd_dump_span *span, const char *rest)
{
    put_start(text, "e");
    mrd_text_json(text, span->name);
    if (span->cat != NULL) {
        mrd_text_fmt(text, ",\"cat\":");
        mrd_text_json(text, span->cat);
    }
    mrd_text_add(text, rest, strlen(rest));
}

static void
end_span(mrd_text *t, const mrd_ring_reader *reader, const mrd_ring_event *ev)
{
    mrd_text rest = { 0 };
    mrd_dump_span span;
    char *text;

    put_place(&rest, ev);
    mrd_text_fmt(&rest, ",\"id\":\"0x%" PRIx64 "\"", ev->value);
    put_args(&rest, reader, ev);
    mrd_text_fmt(&rest, "}");
    if ((text = mrd_text_take(&rest)) == NULL)
        t->failed = true;
    else if (mrd_dump_span_take(ev->value, &span)) {
        put_end(t, &span, text);
        mrd_dump_span_free(&span);
        free(text);
        /* the span's begin may be in a ring that this dump reads later, so keep the end */
    } else if (!mrd_dump_end_keep(ev->value, text)) {
        dump.endless++;
    }
}

/* Called after all rings were read. Some spans had their end in an earlier ring than their begin.
 * Writes these ends. */
static void
put_kept_ends(mrd_text *text)
{
    size_t n;
    mrd_dump_end *ends = mrd_dump_ends(&n);

    for (size_t i = 0; i < n; i++) {
        mrd_dump_span span;

        if (!mrd_dump_span_take(ends[i].id, &span))
            continue;
        put_end(text, &span, ends[i].text);
        mrd_dump_span_free(&span);
        free(ends[i].text);
        ends[i].text = NULL;
    }
    mrd_dump_ends_compact();
}

/* ---- names of the process and its threads ---------------------------------------------------- */

static void
put_name(mrd_text *text, const char *of, int32_t tid, mrd_str name)
{
    put_start(text, "M");
    mrd_text_json(text, of);
    mrd_text_fmt(text, ",\"pid\":%d,\"tid\":%" PRId32 ",\"args\":{\"name\":", dump.pid, tid);
    mrd_text_json_n(text, name.p, name.len);
    mrd_text_fmt(text, "}}");
}

static void
put_thread(mrd_text *text, const mrd_ring_reader *reader, int32_t tid)
{
    mrd_str name = mrd_ring_thread_name(reader, tid), exe = mrd_ring_ident(reader, "exe");

    if (mrd_dump_thread_is_new(-1, "", 0)) { /* this is the first event of the file */
        for (size_t i = exe.len; i > 0; i--)
            if (exe.p[i - 1] == '/') {
                exe = (mrd_str){ exe.p + i, exe.len - i };
                break;
            }
        put_name(text, "process_name", dump.pid, exe.len > 0 ? exe : mrd_str_of("process"));
    }
    if (name.len > 0 && mrd_dump_thread_is_new(tid, name.p, name.len))
        put_name(text, "thread_name", tid, name);
}

/* Writes one event as JSON. Models and notices become instants. Blobs are not written, because only
 * the agent decodes them. */
static void
put_event(mrd_text *text, const mrd_ring_reader *reader, const mrd_ring_event *ev)
{
    static const char scopes[] = "tpgt", flows[] = "stf";
    unsigned sub = (ev->flags >> MRD_RECF_SHIFT) & 3u;
    char phase[2] = "";

    switch (ev->kind) {
    case MRD_REC_SPAN:
        put_head(text, reader, ev, ev->dur_ns == MRD_RING_DUR_NONE ? "B" : "X");
        if (ev->dur_ns != MRD_RING_DUR_NONE)
            put_us(text, "dur", ev->dur_ns);
        break;
    case MRD_REC_BEGIN:
        put_begin(text, reader, ev);
        break;
    case MRD_REC_END:
        end_span(text, reader, ev);
        return;
    case MRD_REC_COUNTER:
        put_head(text, reader, ev, "C");
        put_counter(text, ev);
        break;
    case MRD_REC_FLOW:
        phase[0] = flows[sub < 3 ? sub : 2];
        put_head(text, reader, ev, phase);
        mrd_text_fmt(text, ",\"id\":\"0x%" PRIx64 "\",\"bp\":\"e\"", ev->value);
        break;
    case MRD_REC_BLOB:
        return;
    default:
        put_head(text, reader, ev, "i");
        mrd_text_fmt(text, ",\"s\":\"%c\"", ev->kind == MRD_REC_INSTANT ? scopes[sub] : 'p');
        break;
    }
    put_args(text, reader, ev);
    mrd_text_fmt(text, "}");
}

/* ---- writing the events of all rings to the file --------------------------------------------- */

static int
flush_text(mrd_text *text)
{
    bool ok =
        !text->failed && (text->len == 0 || fwrite(text->p, 1, text->len, dump.out) == text->len);

    text->len = 0;
    return ok ? MERIDIAN_OK : mrd_fail(MERIDIAN_IO, "cannot write %s", dump.path);
}

/* Returns true if an earlier dump has already written this event. A dump leaves the records in a
 * ring that an agent also reads, so the next dump finds them again. */
static bool
written(const mrd_ring_reader *reader, uint64_t *looked)
{
    mrd_ring_stats st;

    if (looked == NULL)
        return false;
    mrd_ring_get_stats(reader, &st);
    if (st.read <= *looked)
        return true;
    *looked = st.read;
    return false;
}

static int
dump_ring(const mrd_ring_name *name, mrd_text *text)
{
    uint64_t *looked = NULL;
    char file[MRD_RING_NAME_MAX];
    mrd_ring_opts opts = MRD_RING_OPTS_DEFAULT;
    mrd_ring_reader *reader = NULL;
    mrd_ring_event ev;
    mrd_ring_step step;
    int err = MERIDIAN_OK;
    int32_t tid = 0;
    mrd_err opened;

    mrd_ring_name_print(name, file);
    snprintf(dump.ring, sizeof(dump.ring), "%s/%s", mrd_proc_settings.ring_dir, file);
    if ((opened = mrd_ring_open(AT_FDCWD, dump.ring, &opts, &reader, NULL)) == MRD_BUSY) {
        opts.flags = MRD_RING_PEEK;
        opened = mrd_ring_open(AT_FDCWD, dump.ring, &opts, &reader, NULL);
        dump.taken++;
        looked = mrd_dump_looked((uint64_t) name->serial << 32 | (uint32_t) name->tid);
    }
    if (opened != MRD_OK)
        return MERIDIAN_OK; /* an agent has read and removed the ring */
    while (((step = mrd_ring_next(reader, &ev, NULL)) == MRD_RING_MORE || step == MRD_RING_LOST) &&
           err == MERIDIAN_OK) {
        if (written(reader, looked))
            continue;
        if (step == MRD_RING_LOST)
            dump.lost += ev.value;
        else
            put_event(text, reader, &ev);
        if (ev.tid != tid && tid != 0)
            put_thread(text, reader, tid);
        tid = ev.tid;
        if (text->len >= FLUSH_AT)
            err = flush_text(text);
    }
    if (tid != 0)
        put_thread(text, reader, tid);
    (void) mrd_ring_release(reader);
    mrd_ring_close(reader);
    return err;
}

static void
note_ring(void *ctx, mrd_ring_writer *writer)
{
    ring_list *list = ctx;

    if (list->n++ < list->cap) {
        mrd_ring_name *name = &list->v[list->n - 1];

        *name = (mrd_ring_name){ .pid = writer->hdr->pid, .tid = writer->hdr->tid };
        name->start_ticks = writer->hdr->start_ticks;
        name->serial = writer->name_serial;
        memcpy(name->boot_id, writer->hdr->boot_id, sizeof(name->boot_id));
    }
}

/* Lists the rings of the process. Calls realloc only while it does not hold the process's lock. A
 * signal handler that interrupted malloc may wait for that lock. */
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

/* Replaces %h and %p in the file name. Returns true if the result contains the process id. */
static bool
expand(const char *from, char *to, size_t size)
{
    struct utsname host = { 0 };
    bool has_pid = false;
    size_t count = 0;

    (void) uname(&host);
    host.nodename[strcspn(host.nodename, "/")] = '\0';
    for (; *from != '\0' && count + 1 < size; from++) {
        bool mark = *from == '%' && (from[1] == 'h' || from[1] == 'p');

        if (!mark)
            to[count++] = *from;
        else if (from[1] == 'h')
            count += (size_t) snprintf(to + count, size - count, "%s", host.nodename);
        else
            count += (size_t) snprintf(to + count, size - count, "%d", getpid());
        has_pid = has_pid || (mark && from[1] == 'p');
        from += mark;
    }
    to[count < size ? count : size - 1] = '\0';
    return has_pid;
}

/* Returns the path of this process's dump. A child of fork gets another path, so that it does not
 * overwrite its parent's file. */
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

/* Reopens the JSON file that an earlier dump of this process completed. Seeks to the line that
 * closes the array of events, so that more events overwrite this line. Returns NULL if the file is
 * not unchanged. */
static FILE *
open_again(const char *path)
{
    struct stat st;
    FILE *file = NULL;
    int fd;

    if (dump.closed.trailer == 0 || dump.pid != getpid() || strcmp(path, dump.closed.path) != 0 ||
        (fd = open(path, O_WRONLY | O_CLOEXEC)) < 0)
        return NULL;
    if (fstat(fd, &st) == 0 && st.st_dev == dump.closed.dev && st.st_ino == dump.closed.ino &&
        st.st_size == dump.closed.size && (file = fdopen(fd, "w")) != NULL &&
        fseeko(file, dump.closed.trailer, SEEK_SET) == 0)
        return file;
    if (file != NULL)
        fclose(file);
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
    /* After a fork, this file is the parent's. A close would write the parent's buffer again. */
    dump.out = NULL;
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
    mrd_text text = { 0 };
    int err = open_file();

    list_rings(&list);
    for (size_t i = 0; i < list.n && err == MERIDIAN_OK; i++)
        err = dump_ring(&list.v[i], &text);
    if (err == MERIDIAN_OK) {
        put_kept_ends(&text);
        err = flush_text(&text);
    }
    free(text.p);
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

/* Called when the program exits normally. Writes the events since the last periodic dump. */
__attribute__((destructor(101))) static void
dump_at_exit(void)
{
    if ((mrd_extra_now() & MRD_EXTRA_DUMPS) != 0)
        (void) mrd_dump_now(true);
}
