#include "capture/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "capture/api.h"
#include "capture/process.h"
#include "capture/ring_read.h"
#include "capture/text.h"

#define FLUSH_AT  (1u << 20)
#define RINGS_MAX 65536

static struct {
    _Atomic uint32_t lock;
    char path[MRD_SETTING_TEXT];
    FILE *out; /* open between the first dump and the finished one */
    int pid;   /* that opened it */
    bool any;  /* an event was written: the next needs a comma */
    uint64_t lost, taken;
    _Atomic int64_t period_ns, due_ns;
} dump = { .period_ns = 1000000000 };

typedef struct {
    mrd_ring_name *v;
    size_t n, cap;
} ring_list;

static bool
dump_lock(void)
{
    uint32_t me = (uint32_t) getpid(), seen = atomic_load(&dump.lock);

    /* a pid: what a thread of the parent held at the fork is nobody's here */
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
put_head(mrd_text *t, const mrd_ring_reader *r, const mrd_ring_event *ev, const char *phase)
{
    mrd_str name = name_of(r, ev), domain = mrd_ring_text(r, ev->domain);

    mrd_text_fmt(t, dump.any ? ",\n{\"ph\":\"%s\",\"name\":" : "\n{\"ph\":\"%s\",\"name\":", phase);
    mrd_text_json_n(t, name.p, name.len);
    if (domain.len > 0) {
        mrd_text_fmt(t, ",\"cat\":");
        mrd_text_json_n(t, domain.p, domain.len);
    }
    mrd_text_fmt(t, ",\"pid\":%d,\"tid\":%" PRId32, dump.pid, ev->tid);
    put_us(t, "ts", ev->ts_ns);
    dump.any = true;
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

/* Blobs, models and notices are for the agent; here models and notices become instants. */
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
    case MRD_REC_END:
        put_head(t, r, ev, ev->kind == MRD_REC_BEGIN ? "b" : "e");
        mrd_text_fmt(t, ",\"id\":\"0x%" PRIx64 "\"", ev->value);
        break;
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

static int
dump_ring(const mrd_ring_name *name, mrd_text *t)
{
    char file[MRD_RING_NAME_MAX], path[MRD_SETTING_TEXT + MRD_RING_NAME_MAX];
    mrd_ring_opts opts = MRD_RING_OPTS_DEFAULT;
    mrd_ring_reader *r = NULL;
    mrd_ring_event ev;
    mrd_ring_step step;
    int err = MERIDIAN_OK;
    mrd_err opened;

    mrd_ring_name_print(name, file);
    snprintf(path, sizeof(path), "%s/%s", mrd_proc_settings.ring_dir, file);
    if ((opened = mrd_ring_open(AT_FDCWD, path, &opts, &r, NULL)) == MRD_BUSY) {
        opts.flags = MRD_RING_PEEK;
        opened = mrd_ring_open(AT_FDCWD, path, &opts, &r, NULL);
        dump.taken++;
    }
    if (opened != MRD_OK)
        return MERIDIAN_OK; /* read to its end and removed by an agent */
    while (((step = mrd_ring_next(r, &ev, NULL)) == MRD_RING_MORE || step == MRD_RING_LOST) &&
           err == MERIDIAN_OK) {
        if (step == MRD_RING_LOST)
            dump.lost += ev.value;
        else
            put_event(t, r, &ev);
        if (t->len >= FLUSH_AT)
            err = flush_text(t);
    }
    (void) mrd_ring_release(r);
    mrd_ring_close(r);
    return err;
}

static void
note_ring(void *ctx, mrd_ring_writer *w)
{
    ring_list *list = ctx;
    mrd_ring_name *more;

    if (list->n == list->cap && list->cap < RINGS_MAX) {
        size_t cap = list->cap == 0 ? 64 : list->cap * 2;

        if ((more = realloc(list->v, cap * sizeof(*more))) == NULL)
            return;
        list->v = more;
        list->cap = cap;
    }
    if (list->n < list->cap) {
        mrd_ring_name *name = &list->v[list->n++];

        *name = (mrd_ring_name){ .pid = w->hdr->pid, .tid = w->hdr->tid };
        name->start_ticks = w->hdr->start_ticks;
        name->serial = w->name_serial;
        memcpy(name->boot_id, w->hdr->boot_id, sizeof(name->boot_id));
    }
}

static int
open_file(void)
{
    int fd;

    if (dump.out != NULL && dump.pid == getpid())
        return MERIDIAN_OK;
    dump.out = NULL; /* a fork's parent's: leave its buffer alone */
    fd = open(dump.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || (dump.out = fdopen(fd, "w")) == NULL) {
        int sys = errno;

        if (fd >= 0)
            close(fd);
        return mrd_fail(MERIDIAN_IO, "cannot write %s: error %d", dump.path, sys);
    }
    dump.pid = getpid();
    dump.any = false;
    dump.lost = dump.taken = 0;
    return fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", dump.out) >= 0
               ? MERIDIAN_OK
               : mrd_fail(MERIDIAN_IO, "cannot write %s", dump.path);
}

static int
close_file(void)
{
    bool ok = fprintf(dump.out,
                      "\n],\"otherData\":{\"meridian\":\"%s\",\"lost\":%" PRIu64
                      ",\"rings_read_by_agent\":%" PRIu64 ",\"clock\":\"CLOCK_MONOTONIC_RAW\"}}\n",
                      MRD_RELEASE, dump.lost, dump.taken) > 0;

    ok = fclose(dump.out) == 0 && ok;
    dump.out = NULL;
    return ok ? MERIDIAN_OK : mrd_fail(MERIDIAN_IO, "cannot write %s", dump.path);
}

static int
dump_locked(bool finished)
{
    ring_list list = { 0 };
    mrd_text t = { 0 };
    int err = open_file();

    mrd_proc_each_ring(note_ring, &list);
    for (size_t i = 0; i < list.n && err == MERIDIAN_OK; i++)
        err = dump_ring(&list.v[i], &t);
    if (err == MERIDIAN_OK)
        err = flush_text(&t);
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
