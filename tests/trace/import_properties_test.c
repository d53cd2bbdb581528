/*
 * Tests properties that every importer must have for any file. After the receiver refuses an event,
 * nothing more is read. A failed allocation is reported or changes nothing. A truncated file gives
 * the events of its beginning. Neither the order of keys in a JSON object nor the size of the reads
 * matters. The files are the inputs of the fuzz targets, the golden files, random XSpaces and, if
 * present, small files of real programs.
 */
#include <dirent.h>

#include "base/hash.h"
#include "base/sys/file.h"
#include "base/sys/out.h"
#include "tests/check.h"
#include "tests/memory.h"
#include "tests/protobuf.h"
#include "tests/trace/events.h"
#include "trace/import/import.h"

/* ---- One import ---- */

typedef struct {
    char **v; /* the emitted events as text */
    size_t n, cap;
    size_t refuse_at; /* number of the event to refuse, from 1; 0 for none */
    size_t cancel_at; /* number of events after which the import is cancelled; 0 for never */
    size_t refused;   /* number of events that were emitted after the refusal or the cancel */
    uint64_t fails_at;
    uint64_t asked;
    size_t chunk;
    int64_t shift_ns;
    mrd_input input;
    char error[400];   /* of the input */
    uint64_t places;   /* hash of the catalog's processes and tracks at the end */
    uint64_t words;    /* hash of the whole catalog, its notes and the input's counts */
    uint64_t no_names; /* number of texts that the catalog had no space for */
    mrd_err err, catalog_err;
    mrd_why why;
} outcome;

static const char *
text_of(mrd_import *imp, mrd_sid sid)
{
    return mrd_catalog_text(imp->catalog, sid).p;
}

static void
arg_in_words(mrd_buf *to, mrd_import *imp, const mrd_arg *a)
{
    /* If there is no memory to store a string in the catalog, the event has the text itself, which
     * is written in the same way. */
    mrd_buf_fmt(to, " %s:%u=", text_of(imp, a->key),
                a->type == MRD_ARG_TEXT ? MRD_ARG_STR : a->type);
    if (a->type == MRD_ARG_TEXT || a->type == MRD_ARG_JSON)
        mrd_buf_add(to, a->v.text, a->len);
    else if (a->type == MRD_ARG_STR)
        mrd_buf_text(to, text_of(imp, a->v.sid));
    else
        mrd_buf_fmt(to, "%" PRIx64, a->v.u);
}

static int
by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Writes arguments sorted by text, because the order of keys in the file does not count. */
static void
args_in_words(mrd_buf *to, mrd_import *imp, const mrd_event *ev)
{
    char **v = __real_calloc(ev->arg_count + 1, sizeof(*v));

    for (uint32_t i = 0; i < ev->arg_count; i++) {
        mrd_buf one = { 0 };

        arg_in_words(&one, imp, &ev->args[i]);
        v[i] = strdup(mrd_buf_cstr(&one));
        mrd_buf_fini(&one);
    }
    qsort(v, ev->arg_count, sizeof(*v), by_text);
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        mrd_buf_text(to, v[i]);
        free(v[i]);
    }
    free(v);
}

static char *
in_words(mrd_import *imp, uint32_t profile, const mrd_event *ev)
{
    const mrd_track *t = mrd_catalog_borrow_track(imp->catalog, ev->track);
    const mrd_process *p = mrd_catalog_borrow_process(imp->catalog, t->process);
    mrd_buf to = { 0 };
    char *text;

    mrd_buf_fmt(&to, "%u %u '%s' '%s' %" PRId64 "+%" PRId64 " id %" PRIx64 " value %" PRIx64,
                profile, ev->kind, text_of(imp, ev->name), text_of(imp, ev->category), ev->ts.ns,
                ev->dur_ns, ev->id, (uint64_t) ev->ivalue);
    mrd_buf_fmt(&to, " bound %u flags %x flow %u", ev->bound_ns, ev->flags, ev->flow_dir);
    for (uint32_t i = 0; i < ev->flow_count; i++)
        mrd_buf_fmt(&to, " arrow %" PRIx64 "/%u", ev->flows[i].id, ev->flows[i].dir);
    mrd_buf_fmt(&to,
                " on %s/%" PRId64 "/%u %u/%u/'%s' %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64,
                text_of(imp, p->instance_id), p->process_id, p->scope, t->source, t->kind,
                text_of(imp, t->name), t->lnc_idx, t->pcore_idx, t->device_idx, t->thread_id);
    args_in_words(&to, imp, ev);
    text = strdup(mrd_buf_cstr(&to));
    mrd_buf_fini(&to);
    return text;
}

/* Hashes which track belongs to which process, their names and their display order. */
static uint64_t
places_of(mrd_import *imp)
{
    mrd_buf to = { 0 };
    uint64_t sum;

    for (mrd_track_id i = 0; i < mrd_catalog_tracks(imp->catalog); i++) {
        const mrd_track *t = mrd_catalog_borrow_track(imp->catalog, i);
        const mrd_process *p = mrd_catalog_borrow_process(imp->catalog, t->process);

        mrd_buf_fmt(&to, "%s/%" PRId64 "/'%s'/%" PRId64 " %u '%s' %" PRId64 " %" PRId64 "\n",
                    text_of(imp, p->instance_id), p->process_id, text_of(imp, p->name),
                    (int64_t) p->sort_index, t->source, text_of(imp, t->name), t->thread_id,
                    (int64_t) t->sort_index);
    }
    sum = mrd_hash64(to.p, to.len, 0);
    mrd_buf_fini(&to);
    return sum;
}

/* Hashes the contents of the catalog, and the messages about the input. */
static uint64_t
words_of(mrd_import *imp)
{
    const mrd_input *in = mrd_import_input(imp);
    mrd_buf to = { 0 };
    uint64_t sum;

    for (mrd_track_id i = 0; i < mrd_catalog_tracks(imp->catalog); i++) {
        const mrd_track *t = mrd_catalog_borrow_track(imp->catalog, i);
        const mrd_process *p = mrd_catalog_borrow_process(imp->catalog, t->process);

        mrd_buf_fmt(&to, "%u/%u/%" PRIu64 "/%" PRId64 "/%" PRId64 " ", t->process, p->flags,
                    (uint64_t) p->scope, p->rank, p->worker_gid);
        mrd_buf_fmt(&to, "%u/%u/'%s' %" PRId64 " %" PRId64 " %" PRId64 "\n", t->kind, t->unit,
                    text_of(imp, t->unit_name), t->lnc_idx, t->pcore_idx, t->device_idx);
    }
    for (size_t i = 0; i < mrd_catalog_notes(imp->catalog); i++)
        mrd_buf_fmt(&to, "note " MRD_STR_FMT "\n",
                    MRD_STR_ARG(mrd_catalog_note_at(imp->catalog, i)));
    mrd_buf_fmt(&to, "%" PRIu64 " %" PRIu64 " %" PRIu64 " '%s'\n", in->unfinished, in->no_start,
                in->lost, text_of(imp, in->error));
    sum = mrd_hash64(to.p, to.len, 0);
    mrd_buf_fini(&to);
    return sum;
}

static mrd_err
keep(mrd_import *imp, uint32_t profile, const mrd_event *ev)
{
    outcome *o = imp->emit_self;
    uint64_t fails = memory_fails_at, so_far = memory_asked;

    if (o->refuse_at > 0 && o->n + 1 >= o->refuse_at) {
        o->refused++;
        return MRD_FULL;
    }
    memory_fails_at = 0;                           /* the test's own memory */
    if (mrd_catalog_err(imp->catalog) != MRD_OK) { /* the whole import is void */
        memory_fails_at = fails;
        return MRD_NOMEM;
    }
    if (o->n == o->cap)
        o->v = __real_realloc(o->v, (o->cap = o->cap * 2 + 64) * sizeof(*o->v));
    o->v[o->n++] = in_words(imp, profile, ev);
    memory_fails_at = fails;
    memory_asked = so_far;
    return MRD_OK;
}

static mrd_err
shift(mrd_import *imp, uint32_t profile, mrd_dur_ns delta_ns)
{
    (void) profile;
    ((outcome *) imp->emit_self)->shift_ns = delta_ns;
    return MRD_OK;
}

static void
run(outcome *o, const mrd_import_ops *ops, mrd_bytes data)
{
    mrd_input blank = { 0 };
    mrd_import imp = { .catalog = mrd_catalog_new(),
                       .identity = MRD_IDENTITY_UNKNOWN,
                       .emit = keep,
                       .emit_self = o,
                       .shift = shift };

    CHECK_ERR("open", mrd_in_memory(data, "a file", &imp.in, NULL), MRD_OK);
    if (o->chunk > 0)
        mrd_in_set_chunk(imp.in, o->chunk);
    blank.path = mrd_catalog_intern(imp.catalog, "a file");
    imp.input = mrd_catalog_add_input(imp.catalog, &blank);
    memory_asked = 0;
    memory_fails_at = o->fails_at;
    o->err = ops->run(&imp, &o->why);
    memory_fails_at = 0;
    o->asked = memory_asked;
    o->no_names = mrd_strtab_refused(mrd_catalog_strings(imp.catalog));
    o->catalog_err = mrd_catalog_err(imp.catalog);
    o->places = places_of(&imp);
    o->words = words_of(&imp);
    o->input = *mrd_import_input(&imp);
    snprintf(o->error, sizeof(o->error), "%s", text_of(&imp, o->input.error));
    if (o->refused == 0 && o->err != MRD_NOMEM)
        CHECK_INT(o->input.records, o->input.events + o->input.dropped);
    CHECK_INT(o->input.events, o->n);
    CHECK(o->err == MRD_OK || o->err == MRD_NOMEM || o->refused > 0 || o->why.text[0] != '\0');
    mrd_in_close(imp.in);
    mrd_catalog_free(imp.catalog);
}

static void
outcome_free(outcome *o)
{
    for (size_t i = 0; i < o->n; i++)
        free(o->v[i]);
    free(o->v);
    *o = (outcome){ 0 };
}

/* Returns true if the sequence of a's events begins with all events of b. */
static bool
begins_with(const outcome *a, const outcome *b)
{
    if (b->n > a->n)
        return false;
    for (size_t i = 0; i < b->n; i++) {
        if (strcmp(a->v[i], b->v[i]) != 0) {
            fprintf(stderr, "event %zu: %s\ninstead of %s\n", i, b->v[i], a->v[i]);
            return false;
        }
    }
    return true;
}

static bool
same(const outcome *a, const outcome *b)
{
    return a->n == b->n && begins_with(a, b) && a->shift_ns == b->shift_ns && a->err == b->err &&
           a->places == b->places && a->input.records == b->input.records &&
           a->input.dropped == b->input.dropped && a->input.unfinished == b->input.unfinished &&
           a->input.no_start == b->input.no_start && a->input.lost == b->input.lost;
}

/* ---- The files ---- */

typedef struct {
    char name[300];
    const mrd_import_ops *ops;
    mrd_buf data;
    outcome plain;
} file;

static file *files;
static size_t n_files;

static file *
file_add(const char *name, const mrd_import_ops *ops)
{
    files = __real_realloc(files, (n_files + 1) * sizeof(*files));
    files[n_files] = (file){ .ops = ops };
    snprintf(files[n_files].name, sizeof(files[n_files].name), "%s", name);
    return &files[n_files++];
}

static void
file_load(const char *path, const mrd_import_ops *ops)
{
    FILE *f = fopen(path, "rb");
    char part[4096];
    file *to;
    size_t n;

    if (f == NULL)
        return;
    to = file_add(path, ops);
    while ((n = fread(part, 1, sizeof(part), f)) > 0)
        mrd_buf_add(&to->data, part, n);
    fclose(f);
}

static void
folder_load(const char *top, const char *folder, const mrd_import_ops *ops)
{
    char path[1400];
    struct dirent *e;
    DIR *dir;

    snprintf(path, sizeof(path), "%s/%s", top, folder);
    if ((dir = opendir(path)) == NULL)
        return;
    while ((e = readdir(dir)) != NULL) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s/%s", top, folder, e->d_name);
        file_load(path, ops);
    }
    closedir(dir);
}

#define DRAWN 12u

/* Adds a random XSpace of one plane. Its tables of names come before or after its events, which
 * have statistics, counts and samples. */
static void
draw_xspace(uint64_t seed)
{
    file *to = file_add("a drawn XSpace", &mrd_import_xplane);
    mrd_buf plane = { 0 }, line = { 0 }, ev = { 0 }, stat = { 0 };
    uint64_t r = seed * 77 + 1;
    bool front = test_rand(&r) & 1;

    pb_text(&plane, 2, "/host:CPU");
    for (int i = 0; front && i < 5; i++)
        pb_xplane_name(&plane, i < 3 ? 4 : 5, (unsigned) i + 1,
                       i < 3 ? "an operation" : "a statistic");
    for (uint64_t lines = 1 + test_rand(&r) % 3; lines > 0; lines--) {
        pb_number(&line, 1, lines);
        pb_text(&line, 2, "line");
        pb_number(&line, 3, 1700000000000000000u + test_rand(&r) % 1000);
        for (uint64_t n = test_rand(&r) % 4; n > 0; n--) {
            pb_number(&ev, 1, 1 + test_rand(&r) % 4);
            pb_number(&ev, 2, test_rand(&r) % 100000);
            pb_number(&ev, 3, test_rand(&r) % 100000);
            pb_number(&stat, 1, 4 + test_rand(&r) % 3);
            pb_number(&stat, 3, test_rand(&r) % 100);
            pb_close_into(&ev, 4, &stat);
            pb_close_into(&line, 4, &ev);
        }
        pb_close_into(&plane, 3, &line);
    }
    for (int i = 0; !front && i < 5; i++)
        pb_xplane_name(&plane, i < 3 ? 4 : 5, (unsigned) i + 1,
                       i < 3 ? "an operation" : "a statistic");
    pb_close_into(&to->data, 1, &plane);
    pb_text(&to->data, 2, "a warning of the profiler");
}

/* Appends a random event of the runtime: a start with its stop, or a single event. Some times are
 * by the device clock. The event numbers have gaps and are slightly out of order. */
static void
draw_nrt_event(mrd_buf *to, uint64_t *r, uint64_t *number, int64_t *now)
{
    static const char *const types[] = {
        "nrt_execute",     "kbl_exec_pre",         "nc_exec_running",   "nc_exec_running",
        "cc_running",      "timestamp_sync_point", "nrt_dma_mem_alloc", "nrt_dma_mem_dealloc",
        "dmem_buf_copyin", "dmem_buf_copyout",     "nrt_async_wait"
    };
    static const char *const phases[] = { "start", "start", "stop", "stop", "instant", "other" };
    const char *type = types[test_rand(r) % MRD_COUNT(types)],
               *phase = strcmp(type, "timestamp_sync_point") == 0
                            ? "instant"
                            : phases[test_rand(r) % 25 == 0 ? 5 : test_rand(r) % 5];
    uint64_t core = test_rand(r) % 3, local = number[core];
    int64_t at = *now += (int64_t) (test_rand(r) % 500);

    number[core] += test_rand(r) % 12 == 0 ? 2 + test_rand(r) % 4 : 1;
    if (test_rand(r) % 15 == 0 && local > 2)
        local -= 1 + test_rand(r) % 3;
    if (test_rand(r) % 20 == 0)
        *now += 3000000000;
    mrd_buf_fmt(to,
                "{\"event_type\":\"%s\",\"phase\":\"%s\",\"id\":%" PRIu64 ",\"nc_idx\":%" PRIu64,
                type, phase, test_rand(r) % 9, core);
    if (test_rand(r) % 10 != 0)
        mrd_buf_fmt(to, ",\"nc_local_id\":%" PRIu64, local);
    if (test_rand(r) % 8 != 0)
        mrd_buf_fmt(to, ",\"tracking_id\":%" PRIu64, test_rand(r) % 6);
    mrd_buf_fmt(to, ",\"thread_id\":%" PRIu64 ",\"worker_gid\":%d,\"data\":{", 9 + test_rand(r) % 2,
                (int) (test_rand(r) % 3) - 1);
    mrd_buf_fmt(to, "\"exec_id\":%" PRIu64 ",\"size\":%" PRIu64, 1 + test_rand(r) % 3,
                test_rand(r) % 5000);
    if (strncmp(type, "nc_", 3) == 0 || strncmp(type, "cc_", 3) == 0 || type[0] == 't')
        mrd_buf_fmt(to, ",\"device_core_idx\":%" PRIu64 ",\"nc_timestamp_ns\":%" PRId64,
                    test_rand(r) % 2, at - 1700000000000000000 + (int64_t) (test_rand(r) % 40));
    if (type[0] == 't' && test_rand(r) % 8 != 0)
        mrd_buf_fmt(to, ",\"cpu_timestamp_ns\":%" PRId64, at);
    if (strncmp(type, "nrt_dma", 7) == 0)
        mrd_buf_fmt(to,
                    ",\"hbm_idx\":%" PRIu64
                    ",\"usage_type\":\"%s\",\"usage_type_total_bytes\":%" PRIu64
                    ",\"total_bytes\":%" PRIu64,
                    test_rand(r) % 2, test_rand(r) % 2 == 0 ? "tensor" : "scratchpad",
                    test_rand(r) % 9000, test_rand(r) % 9000);
    if (test_rand(r) % 5 == 0)
        mrd_buf_fmt(to, ",\"nrta_seq_id\":%" PRIu64, test_rand(r) % 4);
    if (test_rand(r) % 12 == 0) /* a device time, which does not count from 1970 */
        at -= 1700000000000000000;
    mrd_buf_fmt(to, "},\"timestamp_ns\":%" PRId64 "}", at);
}

/* Adds a random file with documents of the runtime, from one fetch or several. */
static void
draw_nrt(uint64_t seed)
{
    char name[40];
    file *to;
    uint64_t r = seed * 99 + 7, number[3] = { 1, 1, 5 };
    int64_t now = 1700000000000000000;

    snprintf(name, sizeof(name), "drawn_runtime_%" PRIu64, seed);
    to = file_add(name, &mrd_import_nrt);
    for (uint64_t fetches = 1 + test_rand(&r) % 3; fetches > 0; fetches--) {
        mrd_buf_text(&to->data, test_rand(&r) % 3 == 0
                                    ? "{\"simulated\":\"drawn\",\"data_version\":2,\"events\":["
                                    : "{\"data_version\":2,\"events\":[");
        for (uint64_t n = 4 + test_rand(&r) % 30, i = 0; i < n; i++) {
            mrd_buf_text(&to->data, i > 0 ? "," : "");
            draw_nrt_event(&to->data, &r, number, &now);
        }
        mrd_buf_text(&to->data, "]}\n");
    }
}

/* Adds a random file of Trace Events with every phase: nested and overlapping spans, asynchronous
 * ones, arrows, counters and metadata. */
static void
draw_trace(uint64_t seed)
{
    static const char phases[] = "XXBEBEibnesftCMNRP",
                      *const names[] = { "a", "b", "step", "process_name" },
                      *const cats[] = { "c", "d,e", "cuda_runtime", "kernel" };
    char name[40];
    file *to;
    uint64_t r = seed * 55 + 3, now = 1000;

    snprintf(name, sizeof(name), "drawn_trace_%" PRIu64, seed);
    to = file_add(name, &mrd_import_trace_event);
    mrd_buf_text(&to->data, seed % 2 == 0 ? "[" : "{\"traceEvents\":[");
    for (uint64_t n = 5 + test_rand(&r) % 60, i = 0; i < n; i++) {
        char ph = phases[test_rand(&r) % (sizeof(phases) - 1)];
        bool word = test_rand(&r) % 9 == 0;

        now += test_rand(&r) % 90;
        mrd_buf_fmt(&to->data,
                    "%s{\"ph\":\"%c\",\"name\":\"%s\",\"pid\":%" PRIu64 ",\"tid\":%s%" PRIu64 "%s",
                    i > 0 ? ",\n" : "", ph, names[test_rand(&r) % (ph == 'M' ? 4 : 3)],
                    1 + test_rand(&r) % 2, word ? "\"w" : "", test_rand(&r) % 3, word ? "\"" : "");
        mrd_buf_fmt(&to->data, ",\"cat\":\"%s\",\"ts\":%" PRIu64 ".%" PRIu64,
                    cats[test_rand(&r) % 4], now - test_rand(&r) % 40, test_rand(&r) % 1000);
        if (ph == 'X' && test_rand(&r) % 9 != 0)
            mrd_buf_fmt(&to->data, ",\"dur\":%" PRIu64, test_rand(&r) % 200);
        if (strchr("bnesft", ph) != NULL)
            mrd_buf_fmt(&to->data, ",\"id\":%s%" PRIu64 "%s",
                        test_rand(&r) % 2 == 0 ? "\"0x" : "\"", test_rand(&r) % 4,
                        test_rand(&r) % 5 == 0 ? "\",\"bp\":\"e\"" : "\"");
        if (ph == 'M')
            mrd_buf_fmt(&to->data, ",\"args\":{\"name\":\"p%" PRIu64 "\"}", test_rand(&r) % 3);
        else if (test_rand(&r) % 2 == 0)
            mrd_buf_fmt(&to->data, ",\"args\":{\"v\":%" PRIu64 ",\"device\":%" PRIu64 "}",
                        test_rand(&r) % 50, test_rand(&r) % 2);
        mrd_buf_byte(&to->data, '}');
    }
    mrd_buf_text(&to->data, seed % 2 == 0 ? "]" : "],\"displayTimeUnit\":\"ms\"}");
}

static void
load(void)
{
    const char *source = getenv("MERIDIAN_SOURCE"), *data = test_data_dir();

    source = source == NULL ? "." : source;
    folder_load(source, "tests/fuzz/corpus/import_trace_event", &mrd_import_trace_event);
    folder_load(source, "tests/fuzz/corpus/import_nrt", &mrd_import_nrt);
    folder_load(source, "tests/fuzz/corpus/import_monitor", &mrd_import_monitor);
    folder_load(source, "tests/fuzz/corpus/import_sysprof", &mrd_import_sysprof);
    folder_load(source, "tests/fuzz/corpus/import_devprof", &mrd_import_devprof);
    folder_load(source, "tests/fuzz/corpus/import_xplane", &mrd_import_xplane);
    folder_load(source, "tests/fuzz/corpus/import_perfetto", &mrd_import_perfetto);
    folder_load(source, "tests/fuzz/corpus/import_flight", &mrd_import_flight);
    for (uint64_t seed = 1; seed <= 6; seed++)
        draw_xspace(seed);
    for (uint64_t seed = 1; seed <= DRAWN; seed++) {
        draw_nrt(seed);
        draw_trace(seed);
    }
    if (data != NULL) {
        char path[1400];

        snprintf(path, sizeof(path), "%s/aws-neuron-docs-samples/%s", data,
                 "neuron-monitor_report_trn2n_assembled.json");
        file_load(path, &mrd_import_monitor);
        snprintf(path, sizeof(path), "%s/aws-neuron-docs-samples/%s", data,
                 "system_profile_old_2.0beta_assembled.json");
        file_load(path, &mrd_import_sysprof);
    }
    for (size_t i = 0; i < n_files; i++)
        run(&files[i].plain, files[i].ops, (mrd_bytes){ files[i].data.p, files[i].data.len });
}

static void
unload(void)
{
    for (size_t i = 0; i < n_files; i++) {
        outcome_free(&files[i].plain);
        mrd_buf_fini(&files[i].data);
    }
    free(files);
    files = NULL;
    n_files = 0;
}

static mrd_bytes
data_of(const file *f)
{
    return (mrd_bytes){ f->data.p, f->data.len };
}

/* ---- The laws ---- */

TEST(a_refused_event_ends_the_import)
{
    load();
    for (size_t i = 0; i < n_files; i++) {
        const file *f = &files[i];
        size_t step = f->plain.n / 200 + 1;

        for (size_t at = 1; at <= f->plain.n; at += step) {
            outcome o = { .refuse_at = at };

            run(&o, f->ops, data_of(f));
            CHECK_ERR(f->name, o.err, MRD_FULL);
            CHECK_INT(o.n, at - 1);
            CHECK_ROW(f->name, o.refused == 1); /* no other was sent */
            CHECK_ROW(f->name, begins_with(&f->plain, &o));
            outcome_free(&o);
        }
    }
    unload();
}

TEST(a_lack_of_memory_is_told_or_changes_nothing)
{
    load();
    for (size_t i = 0; i < n_files; i++) {
        const file *f = &files[i];
        uint64_t step = f->plain.asked / 300 + 1;

        for (uint64_t at = 1; at <= f->plain.asked; at += step) {
            outcome o = { .fails_at = at };
            char row[400];

            run(&o, f->ops, data_of(f));
            snprintf(row, sizeof(row), "%s, request %" PRIu64 ": %s", f->name, at,
                     mrd_err_name(o.err));
            if (o.err == f->plain.err && o.catalog_err == MRD_OK && o.no_names == 0)
                CHECK_ROW(row, same(&f->plain, &o));
            else
                CHECK_ROW(row, o.err == MRD_NOMEM || o.catalog_err == MRD_NOMEM || o.no_names > 0);
            outcome_free(&o);
        }
    }
    unload();
}

TEST(arrival_in_chunks_means_nothing)
{
    load();
    for (size_t i = 0; i < n_files; i++) {
        for (size_t chunk = 1; chunk < 70; chunk = chunk * 3 + 1) {
            outcome o = { .chunk = chunk };

            run(&o, files[i].ops, data_of(&files[i]));
            CHECK_ROW(files[i].name, same(&files[i].plain, &o));
            CHECK_TEXT(o.error, files[i].plain.error);
            outcome_free(&o);
        }
    }
    unload();
}

static bool
always(mrd_import *imp)
{
    (void) imp;
    return true;
}

static mrd_err
count(mrd_import *imp, uint32_t profile, const mrd_event *ev)
{
    (void) profile;
    (void) ev;
    ++*(size_t *) imp->emit_self;
    return MRD_OK;
}

/* Cancellation is checked every 4096 events. */
TEST(an_import_that_is_cancelled_ends)
{
    size_t n = 0;
    mrd_input blank = { 0 };
    mrd_import imp = { .catalog = mrd_catalog_new(),
                       .identity = MRD_IDENTITY_UNKNOWN,
                       .emit = count,
                       .emit_self = &n,
                       .cancelled = always };
    mrd_buf text = { 0 };
    mrd_why why = { 0 };

    mrd_buf_text(&text, "[");
    for (int i = 0; i < 9000; i++)
        mrd_buf_fmt(&text,
                    "%s{\"name\":\"a\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":1}",
                    i == 0 ? "" : ",", i);
    mrd_buf_text(&text, "]");
    CHECK_ERR("open", mrd_in_memory((mrd_bytes){ text.p, text.len }, "a file", &imp.in, NULL),
              MRD_OK);
    imp.input = mrd_catalog_add_input(imp.catalog, &blank);
    CHECK_ERR("run", mrd_import_trace_event.run(&imp, &why), MRD_CANCELLED);
    CHECK_INT(n, 4096);
    mrd_in_close(imp.in);
    mrd_catalog_free(imp.catalog);
    mrd_buf_fini(&text);
}

/* ---- The results of each file ---- */

/* Returns the position after the closing brace of the object at `at`, or `at` if there is none. */
static size_t
brace_end(const mrd_buf *b, size_t at)
{
    size_t depth = 0;

    for (size_t i = at; i < b->len; i++) {
        depth += b->p[i] == '{';
        depth -= b->p[i] == '}';
        if (depth == 0)
            return i + 1;
    }
    return at;
}

static void
splice(mrd_buf *b, size_t at, size_t len, const void *by, size_t by_len)
{
    mrd_buf to = { 0 };

    mrd_buf_add(&to, b->p, at);
    mrd_buf_add(&to, by, by_len);
    mrd_buf_add(&to, b->p + at + len, b->len - at - len);
    mrd_buf_fini(b);
    *b = to;
}

/* Returns the position of such a byte, searched from a random position, or the length if there is
 * none. */
static size_t
place_of(const mrd_buf *b, uint64_t *r, const char *bytes)
{
    size_t from = (size_t) (test_rand(r) % b->len);

    for (size_t k = 0; k < b->len; k++)
        if (b->p[(from + k) % b->len] != 0 && strchr(bytes, b->p[(from + k) % b->len]) != NULL)
            return (from + k) % b->len;
    return b->len;
}

/* Makes one random change in a file: another digit, number or letter, a duplicated object, two
 * swapped objects, or deleted bytes. */
static void
change(mrd_buf *b, uint64_t *r)
{
    static const char *const numbers[] = {
        "0",   "-1",  "1",    "2",    "18446744073709551615", "9223372036854775807",
        "2.5", "1e3", "null", "\"7\""
    };
    uint64_t dice = test_rand(r) % 20;
    size_t at = place_of(b, r,
                         dice < 12   ? "0123456789"
                         : dice < 18 ? "{"
                                     : "abcdefghijklmnopqrstuvwxyz"),
           end = at;

    if (at == b->len)
        return;
    if (dice < 6) {
        b->p[at] = (uint8_t) ('0' + test_rand(r) % 10);
    } else if (dice < 12) {
        const char *by = numbers[test_rand(r) % MRD_COUNT(numbers)];

        while (at > 0 && b->p[at - 1] >= '0' && b->p[at - 1] <= '9')
            at--;
        while (end < b->len && b->p[end] >= '0' && b->p[end] <= '9')
            end++;
        splice(b, at, end - at, by, strlen(by));
    } else if (dice < 18) {
        mrd_buf one = { 0 };
        size_t to;

        end = brace_end(b, at);
        mrd_buf_byte(&one, ',');
        mrd_buf_add(&one, b->p + at, end - at);
        if (dice < 15) {
            splice(b, end, 0, one.p, one.len);
        } else if ((to = place_of(b, r, "{")) >= end) { /* after a later one */
            splice(b, brace_end(b, to), 0, one.p, one.len);
            if (end < b->len && b->p[end] == ',')
                splice(b, at, end + 1 - at, "", 0);
        }
        mrd_buf_fini(&one);
    } else if (dice < 19) {
        end = at + 1 + (size_t) (test_rand(r) % 8);
        splice(b, at, end < b->len ? end - at : 0, "", 0);
    } else {
        b->p[at] = (uint8_t) ('a' + test_rand(r) % 26);
    }
}

static void
say_outcome(mrd_buf *to, const char *name, uint64_t variant, const outcome *o)
{
    uint64_t sum = mrd_hash64(&o->words, sizeof(o->words), o->places);

    for (size_t i = 0; i < o->n; i++)
        sum = mrd_hash64(o->v[i], strlen(o->v[i]), sum);
    mrd_buf_fmt(to,
                "%s/%" PRIu64 ": %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
                " %" PRIu64 " %" PRId64 " %016" PRIx64 "\n",
                name, variant, mrd_err_name(o->err), o->input.records, o->input.events,
                o->input.dropped, o->input.unfinished, o->input.no_start, o->input.lost,
                o->shift_ns, sum);
}

static void
say_file(mrd_buf *to, const file *f, uint64_t variants)
{
    const char *name = strrchr(f->name, '/');
    mrd_buf *b = &(mrd_buf){ 0 };
    char full[400];

    snprintf(full, sizeof(full), "%s/%s", f->ops->name, name == NULL ? f->name : name + 1);
    say_outcome(to, full, 0, &f->plain);
    for (size_t i = 0; i < f->plain.n && i < 20; i++)
        mrd_buf_fmt(to, "  %.400s\n", f->plain.v[i]);
    for (uint64_t k = 1; k <= variants; k++) {
        uint64_t r = mrd_hash64(full, strlen(full), k);
        outcome o = { 0 };

        mrd_buf_add(b, f->data.p, f->data.len);
        for (uint64_t n = 1 + test_rand(&r) % 3; n > 0; n--)
            change(b, &r);
        run(&o, f->ops, (mrd_bytes){ b->p, b->len });
        say_outcome(to, full, k, &o);
        outcome_free(&o);
        mrd_buf_fini(b);
    }
}

static const file *
golden_file(const char *name, size_t len)
{
    for (size_t i = 0; i < n_files; i++) {
        const char *slash = strrchr(files[i].name, '/'),
                   *base = slash == NULL ? files[i].name : slash + 1;
        size_t n = strlen(files[i].ops->name);

        if (len == n + 1 + strlen(base) && strncmp(name, files[i].ops->name, n) == 0 &&
            name[n] == '/' && strncmp(name + n + 1, base, strlen(base)) == 0)
            return &files[i];
    }
    return NULL;
}

/* The files of the fuzz targets, random files, and random changes of each must give the results in
 * tests/golden/imports.txt. These are the counts and a hash of all events, tracks and notes. For
 * the file itself the first events are also listed. This detects unintended changes.
 * MRD_GOLDEN_UPDATE=1 writes the file again. */
TEST(files_and_their_neighbours_give_what_they_gave)
{
    static const char *const golden[] = { "trace-event-json/async.json",
                                          "trace-event-json/chrome_array.json",
                                          "trace-event-json/counters.json",
                                          "trace-event-json/kineto.json",
                                          "trace-event-json/odd.json",
                                          "nrt-sys-trace/device_time.json",
                                          "nrt-sys-trace/host_time.json",
                                          "nrt-sys-trace/odd.json",
                                          "nrt-sys-trace/time-overflow",
                                          "nrt-sys-trace/two_fetches.json",
                                          "nrt-sys-trace/version.json",
                                          "neuron-monitor/odd.json",
                                          "neuron-monitor/report.json",
                                          "system-profile-json/bad",
                                          "system-profile-json/newer",
                                          "system-profile-json/own",
                                          "system-profile-json/own_explorer",
                                          "device-profile-json/bad",
                                          "device-profile-json/own",
                                          "device-profile-json/vendor",
                                          "xplane/small",
                                          "torch-flight-recorder/json",
                                          "torch-flight-recorder/protocol_2",
                                          "torch-flight-recorder/protocol_4" };
    const char *source = getenv("MERIDIAN_SOURCE");
    mrd_buf got = { 0 }, want = { 0 };
    char path[1400];
    size_t at = 0, line = 0;

    if (source == NULL)
        SKIP("MERIDIAN_SOURCE is not set");
    load();
    for (size_t i = 0; i < MRD_COUNT(golden); i++) {
        const file *f = golden_file(golden[i], strlen(golden[i]));

        CHECK_ROW(golden[i], f != NULL);
        if (f != NULL)
            say_file(&got, f, 90);
    }
    for (size_t i = 0; i < n_files; i++)
        if (strncmp(files[i].name, "drawn_", 6) == 0)
            say_file(&got, &files[i], 12);
    snprintf(path, sizeof(path), "%s/tests/golden/imports.txt", source);
    if (getenv("MRD_GOLDEN_UPDATE") != NULL)
        mrd_write_file(path, (mrd_bytes){ got.p, got.len }, 0644, NULL);
    CHECK_ERR(path, mrd_file_read(path, 8 << 20, &want, NULL), MRD_OK);
    for (; at < got.len && at < want.len && got.p[at] == want.p[at]; at++)
        line = got.p[at] == '\n' ? at + 1 : line;
    if (at < got.len || at < want.len) {
        fprintf(stderr, "imports.txt differs: now %.200s\n", (const char *) got.p + line);
        CHECK(false);
    }
    mrd_buf_fini(&got);
    mrd_buf_fini(&want);
    unload();
}

TEST_MAIN()
