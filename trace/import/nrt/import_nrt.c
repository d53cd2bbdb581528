#include "trace/import/nrt/import_nrt.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/loss_cause.h"
#include "base/obj.h"
#include "trace/import/import.h"
#include "trace/import/nrt/import_nrt_int.h"
#include "trace/model/arg_keys.h"

/* ---- Events ---- */

/* Reads the members of an event record. With `in_data`, reads the members of the event's object
 * "data". */
static mrd_err
nrt_read_fields(mrd_nrt *nrt, nrt_record *rec, bool in_data)
{
    mrd_str key, text;
    mrd_jr_type type;
    mrd_err err = MRD_OK;
    mrd_sid sid;

    mrd_json_enter(nrt->r);
    while (err == MRD_OK && (type = mrd_json_next(nrt->r, &key, &text)) > MRD_JR_END) {
        nrt_field field = mrd_nrt_field_of(nrt, key, in_data, &sid);

        err = field == NRT_DATA && type == MRD_JR_OBJECT
                  ? nrt_read_fields(nrt, rec, true)
                  : mrd_nrt_take(nrt, rec, field, sid, type, text);
    }
    return err != MRD_OK ? err : mrd_json_reader_err(nrt->r, NULL);
}

/* Reads an event after the reader has returned its opening bracket. Passes it to
 * mrd_nrt_dispatch(). */
static mrd_err
nrt_read_record(mrd_nrt *nrt)
{
    uint64_t offset = mrd_json_reader_offset(nrt->r);
    nrt_record rec = nrt->empty;
    const char *end;
    mrd_err err = MRD_OK;

    rec.offset = offset;
    mrd_args_reset(nrt->args);
    if ((end = mrd_nrt_layout_event(nrt, &rec, mrd_json_ahead(nrt->r))) != NULL) {
        mrd_json_passed(nrt->r, end);
    } else {
        rec = nrt->empty;
        rec.offset = offset;
        mrd_args_reset(nrt->args);
        mrd_json_mark(nrt->r, offset, mrd_json_depth(nrt->r));
        err = nrt_read_fields(nrt, &rec, false);
    }
    if (err != MRD_OK || (err = mrd_args_err(nrt->args)) != MRD_OK)
        return err;
    return mrd_nrt_dispatch(nrt, &rec);
}

/* Skips damaged text in the array at this depth, and counts skipped bytes and dropped records.
 * Returns false if no further record was found. */
static bool
nrt_resume(mrd_nrt *nrt, unsigned depth)
{
    mrd_json_damage damage;
    bool resumed = mrd_json_resume(nrt->r, depth, &damage);

    nrt->counts.skipped += damage.skipped;
    nrt->counts.records += damage.records;
    nrt->counts.dropped += damage.records;
    if (damage.records > 0 && nrt->counts.dropped == damage.records)
        snprintf(nrt->counts.first_drop, sizeof(nrt->counts.first_drop), "%.255s", damage.why.text);
    return resumed;
}

static mrd_err
nrt_read_events(mrd_nrt *nrt)
{
    unsigned depth;
    mrd_jr_type type;
    mrd_err err = MRD_OK;

    mrd_json_enter(nrt->r);
    depth = mrd_json_depth(nrt->r);
    while ((type = mrd_json_next(nrt->r, NULL, NULL)) != MRD_JR_END) {
        if (type == MRD_JR_OBJECT) {
            err = nrt_read_record(nrt);
        } else if (type != MRD_JR_ERROR) {
            nrt_record rec = { .offset = mrd_json_reader_offset(nrt->r) };

            mrd_nrt_drop(nrt, &rec, "an event that is not an object");
        }
        if (mrd_json_reader_err(nrt->r, NULL) != MRD_OK)
            err = nrt_resume(nrt, depth) ? MRD_OK : mrd_json_reader_err(nrt->r, NULL);
        if (err != MRD_OK)
            return err;
    }
    return MRD_OK;
}

/* ---- Documents ---- */

static mrd_err
nrt_read_version(mrd_nrt *nrt, mrd_in *in, mrd_jr_type type, mrd_str text, bool events,
                 mrd_why *why)
{
    uint64_t version;

    if (mrd_nrt_number(type, text, &version) && version == NRT_VERSION)
        return MRD_OK;
    return mrd_why_set(why, MRD_VERSION, 0,
                       "'%s': byte %llu: the runtime's trace has data_version " MRD_STR_FMT
                       ", and only %d is understood%s",
                       mrd_in_name(in), (unsigned long long) mrd_json_reader_offset(nrt->r),
                       (int) (text.len < 20 ? text.len : 20), text.p, NRT_VERSION,
                       events ? "; the events before it were read as if it were that" : "");
}

/* Marks the process and all further events as simulated. The simulated runtime announces this
 * before its first event. */
static void
nrt_mark_simulated(mrd_nrt *nrt)
{
    nrt->o.simulated = true;
    mrd_catalog_borrow_process(nrt->o.catalog, nrt->o.process)->flags |= MRD_PROC_SIMULATED;
}

/* Reads one document: the object that a call of nrt_sys_trace_fetch_events returned. */
static mrd_err
nrt_read_document(mrd_nrt *nrt, mrd_in *in, mrd_why *why)
{
    bool events = false, version = false;
    mrd_str key, text;
    mrd_jr_type type;
    mrd_err err = MRD_OK;

    mrd_json_enter(nrt->r);
    while (err == MRD_OK && (type = mrd_json_next(nrt->r, &key, &text)) > MRD_JR_END) {
        if (mrd_str_is(key, "events") && type == MRD_JR_ARRAY) {
            events = true;
            err = nrt_read_events(nrt);
        } else if (mrd_str_is(key, "data_version")) {
            version = true;
            err = nrt_read_version(nrt, in, type, text, events, why);
        } else if (mrd_str_is(key, "simulated") && type != MRD_JR_FALSE) {
            nrt_mark_simulated(nrt);
        }
    }
    if (err == MRD_OK && mrd_json_reader_err(nrt->r, NULL) == MRD_OK) {
        if (!events)
            return mrd_why_set(why, MRD_FORMAT, 0, "'%s': a document without \"events\"",
                               mrd_in_name(in));
        nrt->counts.documents++;
        nrt->counts.no_version += !version;
    }
    return err;
}

mrd_err
mrd_nrt_parse(mrd_nrt *nrt, mrd_in *in, mrd_why *why)
{
    mrd_why own = { 0 };
    mrd_jr_type type;
    mrd_err err = mrd_json_reader_open(in, &nrt->r, why);

    if (err != MRD_OK)
        return err;
    mrd_json_many(nrt->r);
    while (err == MRD_OK && (type = mrd_json_next(nrt->r, NULL, NULL)) > MRD_JR_END) {
        if (type == MRD_JR_OBJECT)
            err = nrt_read_document(nrt, in, &own);
        else
            err = mrd_why_set(&own, MRD_FORMAT, 0, "'%s': byte %llu: a document that is %s",
                              mrd_in_name(in), (unsigned long long) mrd_json_reader_offset(nrt->r),
                              mrd_jr_type_text(type));
    }
    if (mrd_json_reader_err(nrt->r, &own) != MRD_OK)
        err = own.err;
    else if (err != MRD_OK && own.err == MRD_OK)
        mrd_why_set(&own, err, 0, "'%s': events could not be kept", mrd_in_name(in));
    if (err != MRD_OK && why != NULL)
        *why = own;
    nrt->counts.lenient += mrd_json_reader_lenient(nrt->r);
    nrt->counts.replaced += mrd_json_reader_replaced(nrt->r);
    mrd_json_reader_close(nrt->r);
    nrt->r = NULL;
    return err;
}

const mrd_nrt_counts *
mrd_nrt_count(const mrd_nrt *nrt)
{
    return &nrt->counts;
}

size_t
mrd_nrt_memory_used(const mrd_nrt *nrt)
{
    const mrd_open_table *const tables[] = { &nrt->open, &nrt->held, &nrt->early };
    size_t sum = sizeof(*nrt) + NRT_CORES * sizeof(*nrt->ids) + mrd_nrt_clock_memory(&nrt->clock);

    for (size_t i = 0; i < 3; i++)
        sum += tables[i]->bytes + tables[i]->cap * sizeof(*tables[i]->slots);
    return sum;
}

static void
nrt_intern(mrd_nrt *nrt)
{
    const struct {
        mrd_sid *to;
        mrd_arg_key key;
    } keys[] = {
        { &nrt->key_phase, MRD_KEY_PHASE },     { &nrt->key_exec, MRD_KEY_EXEC },
        { &nrt->key_hbm, MRD_KEY_HBM },         { &nrt->key_device, MRD_KEY_MLA },
        { &nrt->key_usage, MRD_KEY_USAGE },     { &nrt->key_usage_total, MRD_KEY_USAGE_TOTAL },
        { &nrt->key_total, MRD_KEY_TOTAL },     { &nrt->key_size, MRD_KEY_SIZE },
        { &nrt->key_pcore, MRD_KEY_PCORE },     { &nrt->key_nc_ts, MRD_KEY_NC_TIME },
        { &nrt->key_cpu_ts, MRD_KEY_CPU_TIME }, { &nrt->key_end_nc_ts, MRD_KEY_NC_TIME_END },
    };
    struct {
        mrd_sid *to;
        const char *text;
    } words[] = {
        { &nrt->type_running, "nc_exec_running" },
        { &nrt->type_pre, "kbl_exec_pre" },
        { &nrt->type_sync, "timestamp_sync_point" },
        { &nrt->key_time, NRT_TIME_KEY },
        { &nrt->key_seq, NRT_SEQ_KEY },
        { &nrt->type_alloc, "nrt_dma_mem_alloc" },
        { &nrt->type_dealloc, "nrt_dma_mem_dealloc" },
        { &nrt->type_copyin, "dmem_buf_copyin" },
        { &nrt->type_copyout, "dmem_buf_copyout" },
        { &nrt->key_direction, "direction" },
        { &nrt->key_bandwidth, "bytes_per_second" },
        { &nrt->to_device, "host_to_device" },
        { &nrt->to_host, "device_to_host" },
        { &nrt->time_between, "device clock, between two sync points" },
        { &nrt->time_beyond, "device clock, beyond the sync points" },
        { &nrt->time_none, "device clock, no sync point" },
        { &nrt->cause_ring, mrd_drop_text(MRD_DROP_RUNTIME) },
    };

    for (size_t i = 0; i < MRD_COUNT(words); i++)
        *words[i].to = mrd_strtab_addz(nrt->strings, words[i].text);
    for (size_t i = 0; i < MRD_COUNT(keys); i++)
        *keys[i].to = mrd_arg_key_add(nrt->strings, keys[i].key);
}

mrd_err
mrd_nrt_new(const mrd_nrt_options *options, mrd_nrt **ret_nrt, mrd_why *why)
{
    mrd_nrt *nrt = calloc(1, sizeof(*nrt));

    if (nrt == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "a reader of runtime traces");
    nrt->o = *options;
    nrt->strings = mrd_catalog_strings(options->catalog);
    nrt->joiner.strings = nrt->strings;
    nrt->empty = (nrt_record){ .phase = NRT_UNKNOWN,
                               .nc_idx = MRD_NONE,
                               .thread_id = MRD_NONE,
                               .worker_gid = MRD_NONE,
                               .pcore_idx = MRD_NONE };
    nrt->args = mrd_args_new(nrt->strings);
    nrt->ids = calloc(NRT_CORES, sizeof(*nrt->ids));
    nrt->clock.max_points = options->patient ? NRT_POINTS_FILE : NRT_POINTS_LIVE;
    if (nrt->args == NULL || nrt->ids == NULL) {
        mrd_nrt_free(nrt);
        return mrd_why_set(why, MRD_NOMEM, 0, "a reader of runtime traces");
    }
    /* the letters "nrt", so that flow ids differ from the ids of other readers with this scope */
    nrt->flow_hash = 0x6e7274;
    nrt_intern(nrt);
    *ret_nrt = nrt;
    return MRD_OK;
}

void
mrd_nrt_free(mrd_nrt *nrt)
{
    if (nrt == NULL)
        return;
    mrd_open_table_fini(&nrt->open);
    mrd_open_table_fini(&nrt->held);
    mrd_open_table_fini(&nrt->early);
    mrd_joiner_fini(&nrt->joiner);
    mrd_nrt_clock_fini(&nrt->clock);
    mrd_args_free(nrt->args);
    mrd_nrt_layout_fini(&nrt->layout);
    free(nrt->ids);
    free(nrt);
}

/* ---- The file importer ---- */

typedef struct {
    mrd_import *imp;
    /* first error of mrd_import_put(), which is not called any more after it */
    mrd_err refused;
    uint64_t losses; /* number of loss events, which the file does not contain as records */
} nrt_file;

static mrd_err
nrt_file_emit(void *self, const mrd_event *ev)
{
    nrt_file *file = self;

    if (file->refused != MRD_OK)
        return file->refused;
    file->losses += ev->kind == MRD_LOSS;
    file->refused = mrd_import_put(file->imp, 0, ev);
    return file->refused;
}

static mrd_proc_id
nrt_file_process(const mrd_import *imp)
{
    const mrd_identity *place = &imp->identity;
    bool known = place->instance_id != MRD_SID_EMPTY && place->process_id != MRD_NONE;
    mrd_process process;

    mrd_process_init(&process);
    process.instance_id = place->instance_id != MRD_SID_EMPTY
                              ? place->instance_id
                              : mrd_catalog_intern(imp->catalog, "unknown");
    process.process_id = place->process_id != MRD_NONE ? place->process_id : 0;
    process.flags = place->process_id != MRD_NONE ? 0 : MRD_PROC_NO_PID;
    process.scope = known ? 0 : imp->input + 1;
    process.rank = place->rank;
    process.job = place->job;
    return mrd_catalog_process(imp->catalog, &process);
}

static void
nrt_file_report(const mrd_import *imp, const mrd_nrt_counts *counts, uint64_t losses)
{
    mrd_input *input = mrd_import_input(imp);
    const char *name = mrd_in_name(imp->in);

    input->records = counts->records + losses;
    input->unfinished = counts->unfinished;
    input->no_start = counts->no_start;
    input->lost = counts->lost;
    /* mrd_import_put() stores a reason for dropped records, too, and its reason came first */
    if (counts->dropped > 0 && input->dropped == 0)
        input->error = mrd_catalog_intern(imp->catalog, counts->first_drop);
    input->dropped += counts->dropped;
    if (counts->no_version > 0)
        mrd_catalog_note(imp->catalog, "'%s' does not state its data_version; read as version %d",
                         name, NRT_VERSION);
    input->skipped += counts->skipped;
    mrd_import_note_repairs(imp, counts->lenient, counts->replaced);
    if (counts->beyond > counts->between || counts->unmapped + counts->moved > 0)
        mrd_catalog_note(
            imp->catalog,
            "'%s': of the events with device time %llu lie between two sync points, %llu "
            "beyond the sync points of their core, so their bound is wide, %llu are as "
            "the runtime placed them, without a bound, and %llu could not be placed",
            name, (unsigned long long) counts->between, (unsigned long long) counts->beyond,
            (unsigned long long) counts->moved, (unsigned long long) counts->unmapped);
}

static mrd_err
nrt_run(mrd_import *imp, mrd_why *why)
{
    nrt_file file = { .imp = imp };
    mrd_nrt_options options = { .catalog = imp->catalog,
                                .flow_scope = (uint64_t) imp->input + 1,
                                .patient = true,
                                .emit = nrt_file_emit,
                                .self = &file };
    mrd_nrt *nrt = NULL;
    mrd_err err, end;

    options.process = nrt_file_process(imp);
    if ((err = mrd_nrt_new(&options, &nrt, why)) != MRD_OK)
        return err;
    err = mrd_nrt_parse(nrt, imp->in, why);
    end = mrd_nrt_flush(nrt);
    nrt_file_report(imp, mrd_nrt_count(nrt), file.losses);
    mrd_nrt_free(nrt);
    if (file.refused != MRD_OK)
        /* an error of Meridian's storage matters more than an error in the JSON text */
        return file.refused;
    return err != MRD_OK ? err : end;
}

/* Returns 85 for an object with "events" and "event_type", 70 for one with "events" and
 * "data_version", 0 for other text. */
static int
nrt_probe(mrd_str head, const char *name)
{
    bool events = mrd_str_has(head, "\"events\"");
    bool type = mrd_str_has(head, "\"event_type\"");
    bool version = mrd_str_has(head, "\"data_version\"");

    (void) name;
    if (mrd_str_first(head) != '{' || !events)
        return 0;
    return type ? 85 : version ? 70 : 0;
}

const mrd_import_ops mrd_import_nrt = {
    .name = "nrt-sys-trace",
    .what = "JSON of nrt_sys_trace_fetch_events, data_version 2, one or several documents",
    .probe = nrt_probe,
    .run = nrt_run,
};
