/* Prints the results of importers: import_words [--whole] FORMAT FILE... Writes one line per event
 * with its parts separated by tabs, one per shift and note, one per track in its final state, and
 * one with the counts. --whole: first prints the rest of the catalog too, and assigns the files to
 * processes by their directory. For tests that read the same file with other programs. */
#include "trace/import/import.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/obj.h"

static const mrd_import_ops *const importers[] = { &mrd_import_sysprof,  &mrd_import_devprof,
                                                   &mrd_import_monitor,  &mrd_import_xplane,
                                                   &mrd_import_nrt,      &mrd_import_trace_event,
                                                   &mrd_import_perfetto, &mrd_import_flight };

/* Returns the text with control characters replaced by blanks, because each event is one line.
 * Valid until the 16th call after this one. */
static const char *
words(const mrd_import *imp, mrd_sid sid)
{
    static char kept[16][4096];
    static unsigned next;
    char *to = kept[next++ % MRD_COUNT(kept)];

    snprintf(to, sizeof(kept[0]), "%s", mrd_catalog_text(imp->catalog, sid).p);
    for (char *c = to; *c != '\0'; c++)
        *c = (unsigned char) *c < ' ' ? ' ' : *c;
    return to;
}

static void
put_arg(const mrd_import *imp, const mrd_arg *a)
{
    printf("\t%s=", words(imp, a->key));
    switch ((mrd_arg_type) a->type) {
    case MRD_ARG_INT:
        printf("i%" PRId64, a->v.i);
        break;
    case MRD_ARG_UINT:
        printf("i%" PRIu64, a->v.u);
        break;
    case MRD_ARG_DOUBLE:
        printf("d%.17g", a->v.d);
        break;
    case MRD_ARG_BOOL:
        printf("b%d", a->v.u != 0);
        break;
    case MRD_ARG_STR:
        printf("s%s", words(imp, a->v.sid));
        break;
    case MRD_ARG_TEXT:
        printf("s%.*s", (int) a->len, a->v.text);
        break;
    case MRD_ARG_JSON:
        printf("j%.*s", (int) a->len, a->v.text);
        break;
    }
}

/* Prints a track and its process. */
static void
put_track(const mrd_import *imp, mrd_track_id id)
{
    const mrd_track *t = mrd_catalog_borrow_track(imp->catalog, id);
    const mrd_process *p = mrd_catalog_borrow_process(imp->catalog, t->process);

    printf("\t%s\t%" PRId64 "\t%s\t%s\t%" PRIu64 "\t%" PRId64 "\t%" PRId64,
           words(imp, p->instance_id), p->process_id, words(imp, p->name),
           (p->flags & MRD_PROC_NODE) != 0     ? "node"
           : (p->flags & MRD_PROC_NO_PID) != 0 ? "no pid"
                                               : "",
           (uint64_t) p->scope, p->rank, p->worker_gid);
    printf("\t%s\t%s\t%u\t%s\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRId64,
           mrd_source_text(t->source), words(imp, t->name), t->unit, words(imp, t->unit_name),
           t->lnc_idx, t->pcore_idx, t->device_idx, t->thread_id, t->sort_index);
}

static mrd_err
put(mrd_import *imp, uint32_t profile, const mrd_event *ev)
{
    static const char *const kinds[] = { "none", "span", "instant", "counter", "flow", "loss" };

    printf("%u\t%s\t%s\t%s\t%" PRId64 "\t%" PRId64 "\t%" PRIu64, profile, kinds[ev->kind],
           words(imp, ev->name), words(imp, ev->category), ev->ts.ns, ev->dur_ns, ev->id);
    if (ev->kind == MRD_COUNTER && (ev->flags & MRD_EV_INT) == 0)
        printf("\td%.17g", ev->value);
    else if (ev->kind == MRD_COUNTER && (ev->flags & MRD_EV_UNSIGNED) != 0)
        printf("\ti%" PRIu64, (uint64_t) ev->ivalue);
    else
        printf("\ti%" PRId64, ev->kind == MRD_COUNTER || ev->kind == MRD_LOSS ? ev->ivalue : 0);
    printf("\t%" PRIu32 "\t%s%s\t", ev->bound_ns,
           (ev->flags & MRD_EV_NO_START) != 0 ? "no-start " : "",
           (ev->flags & MRD_EV_SIMULATED) != 0 ? "simulated" : "");
    for (uint32_t i = 0; i < ev->flow_count; i++)
        printf("%u", (unsigned) ev->flows[i].dir);
    put_track(imp, ev->track);
    printf("\t%" PRIu32, ev->track);
    for (uint32_t i = 0; i < ev->flow_count; i++)
        printf("%s%u:%" PRIu64, i == 0 ? "\t" : " ", ev->flows[i].dir, ev->flows[i].id);
    if (ev->flow_count == 0)
        putchar('\t');
    for (uint32_t i = 0; i < ev->arg_count; i++)
        put_arg(imp, &ev->args[i]);
    putchar('\n');
    return MRD_OK;
}

static mrd_err
shift(mrd_import *imp, uint32_t profile, mrd_dur_ns delta_ns)
{
    (void) imp;
    printf("shift\t%u\t%" PRId64 "\n", profile, delta_ns);
    return MRD_OK;
}

static void
put_processes(const mrd_import *imp)
{
    for (mrd_proc_id i = 0; i < mrd_catalog_processes(imp->catalog); i++) {
        const mrd_process *p = mrd_catalog_borrow_process(imp->catalog, i);

        printf("whole\tprocess\t%s\t%" PRId64 "\t%s\t%" PRId64 "\t%s\t%s\t%s\t%" PRId64 "\t%" PRId64
               "\t%" PRId64 "\t%" PRId64 "\t%" PRIu32 "\t%s%s%s\t%" PRIu32 "\t%" PRIu32 "\n",
               words(imp, p->instance_id), p->process_id, words(imp, p->name), p->container_pid,
               words(imp, p->job), words(imp, p->pod), words(imp, p->labels), p->rank,
               p->world_size, p->worker_gid, p->sort_index, p->clock,
               (p->flags & MRD_PROC_SIMULATED) != 0 ? "simulated " : "",
               (p->flags & MRD_PROC_NO_PID) != 0 ? "no_pid " : "",
               (p->flags & MRD_PROC_NODE) != 0 ? "node " : "", p->profile, p->scope);
    }
}

static void
put_lists(const mrd_import *imp)
{
    size_t n;
    const mrd_clock_info *c = mrd_catalog_clocks(imp->catalog, &n);
    const mrd_artifact *a;
    const mrd_devprofile *d;
    const mrd_device_capture *v;

    for (size_t i = 1; i < n; i++)
        printf("whole\tclock\t%s\t%s\t%s\t%s\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRIu32
               "\t%" PRIu64 "\n",
               words(imp, c[i].name), words(imp, c[i].node), words(imp, c[i].quality),
               words(imp, c[i].method), c[i].estimate_ns, c[i].bound_ns, c[i].noise_ns, c[i].epochs,
               c[i].violations);
    a = mrd_catalog_artifacts(imp->catalog, &n);
    for (size_t i = 0; i < n; i++)
        printf("whole\tartifact\t%s\t%s\t%s\t%" PRIu64 "\t%s\t%" PRId64 "\t%" PRId64 "\t%s\n",
               words(imp, a[i].path), words(imp, a[i].kind), a[i].sha256, a[i].size,
               words(imp, a[i].instance_id), a[i].process_id, a[i].nc_idx,
               words(imp, a[i].decoded_by));
    d = mrd_catalog_devprofiles(imp->catalog, &n);
    for (size_t i = 1; i < n; i++)
        printf("whole\tprofile\t%s\t%s\t%s\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%.17g\n",
               words(imp, d[i].name), words(imp, d[i].model), words(imp, d[i].instance_id),
               d[i].process_id, d[i].nc_idx, d[i].session, d[i].total_time_s);
    v = mrd_catalog_captures(imp->catalog, &n);
    for (size_t i = 0; i < n; i++)
        printf("whole\tcapture\t%s\t%" PRIu32 "\t%" PRIu32 "\t%" PRId64 "\t%" PRId64 "\t%" PRId64
               "\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\n",
               words(imp, v[i].label), v[i].profile, v[i].process, v[i].nc_idx, v[i].first.ns,
               v[i].last.ns, v[i].hw_first.ns, v[i].hw_last.ns, v[i].total_ns);
}

static void
put_whole(const mrd_import *imp)
{
    for (size_t i = 0; i < mrd_catalog_facts(imp->catalog); i++) {
        mrd_str key, value;

        mrd_catalog_fact(imp->catalog, i, &key, &value);
        printf("whole\tfact\t" MRD_STR_FMT "\t" MRD_STR_FMT "\n", MRD_STR_ARG(key),
               MRD_STR_ARG(value));
    }
    for (mrd_track_id i = 0; i < mrd_catalog_tracks(imp->catalog); i++) {
        const mrd_track *t = mrd_catalog_borrow_track(imp->catalog, i);

        printf("whole\ttrack\t%s\t%" PRId64, t->kind == MRD_TRACK_COUNTER ? "counter" : "spans",
               t->worker_gid);
        put_track(imp, i);
        putchar('\n');
    }
    put_processes(imp);
    put_lists(imp);
}

static mrd_err
one(const mrd_import_ops *ops, const char *path, bool whole)
{
    mrd_import imp = {
        .catalog = mrd_catalog_new(), .identity = MRD_IDENTITY_UNKNOWN, .emit = put, .shift = shift
    };
    mrd_input blank = { 0 };
    const mrd_input *in;
    mrd_why why = { 0 };
    mrd_err err = mrd_in_file(path, &imp.in, &why);

    if (err != MRD_OK) {
        fprintf(stderr, "%s\n", why.text);
        mrd_catalog_free(imp.catalog);
        return err;
    }
    (void) mrd_catalog_add_input(imp.catalog, &blank); /* the file is the second of several */
    imp.input = mrd_catalog_add_input(imp.catalog, &blank);
    if (whole)
        imp.identity = (mrd_identity){ .instance_id = mrd_catalog_intern(imp.catalog, "i-place"),
                                       .process_id = 77,
                                       .nc_idx = 5,
                                       .model = 8,
                                       .session = 6,
                                       .rank = 3,
                                       .job = mrd_catalog_intern(imp.catalog, "a job") };
    err = ops->run(&imp, &why);
    for (size_t i = 0; i < mrd_catalog_notes(imp.catalog); i++)
        printf("note\t" MRD_STR_FMT "\n", MRD_STR_ARG(mrd_catalog_note_at(imp.catalog, i)));
    for (mrd_track_id i = 0; i < mrd_catalog_tracks(imp.catalog); i++) {
        printf("track\t%" PRIu32, i);
        put_track(&imp, i);
        putchar('\n');
    }
    if (whole)
        put_whole(&imp);
    in = mrd_import_input(&imp);
    printf("input\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
           "\n",
           mrd_err_name(err), in->records, in->events, in->dropped, in->unfinished, in->no_start,
           in->lost);
    mrd_in_close(imp.in);
    mrd_catalog_free(imp.catalog);
    return MRD_OK;
}

int
main(int argc, char **argv)
{
    bool whole = argc > 1 && strcmp(argv[1], "--whole") == 0;

    for (int i = 2 + whole; i < argc; i++) {
        for (size_t k = 0; k < MRD_COUNT(importers); k++) {
            if (strcmp(importers[k]->name, argv[1 + whole]) == 0 &&
                one(importers[k], argv[i], whole) != MRD_OK)
                return 1;
        }
    }
    return 0;
}
