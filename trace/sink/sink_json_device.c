/*
 * trace/sink/sink_json_device.c - device_profile_model_<id>.json. It has one array per kind of row
 * (instruction, dma, cc_stream, ...), by the event's category. Rows are flat, with the source's own
 * keys and times in nanoseconds.
 */
#include <stdlib.h>

#include "base/obj.h"
#include "trace/sink/json_event.h"
#include "trace/sink/sink_json.h"

/* Members of our rows. Arguments of the same names are written into "args". */
static const char *const reserved_keys[] = {
    "timestamp", "duration",    "name",           "track",   "kind",     "unfinished",
    "no_start",  "simulated",   "clock_bound_ns", "flow_id", "flow_dir", "args",
    "id",        "instance_id", "process_id",     "nc_idx",
};

#define RESERVED MRD_COUNT(reserved_keys)

#define DEVICE_SECTIONS 64u /* kinds of rows with their own array; others are in "event" */

typedef struct {
    mrd_sid name; /* 0 means "event" */
    mrd_jw_spool spool;
} device_section;

struct mrd_json_device {
    const mrd_sink_env *env;
    mrd_sid instruction;
    device_section section[DEVICE_SECTIONS];
    size_t n_sections;
    mrd_jw_spool counters, losses;
    mrd_sid reserved[RESERVED];
    mrd_sid taken[4]; /* reserved names of sections, which no category may have */
    bool many;        /* rows are of several processes or cores, so each states its own */
};

static bool
several_cores(const mrd_sink_env *env)
{
    const mrd_track *first = NULL;

    for (size_t i = 0; i < mrd_catalog_tracks(env->catalog); i++) {
        const mrd_track *t = mrd_catalog_borrow_track(env->catalog, (mrd_track_id) i);

        if (mrd_catalog_profile_of(env->catalog, (mrd_track_id) i) != env->profile)
            continue;
        if (first != NULL && (t->process != first->process || t->lnc_idx != first->lnc_idx))
            return true;
        first = t;
    }
    return false;
}

mrd_err
mrd_json_device_open(const mrd_sink_env *env, mrd_jw *w, mrd_json_device **ret_device, mrd_why *why)
{
    mrd_strtab *strings = mrd_catalog_strings(env->catalog);
    mrd_json_device *d = calloc(1, sizeof(*d));

    if (d == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "json: device profile");
    d->env = env;
    d->instruction = mrd_strtab_find(strings, MRD_STR("instruction"));
    for (size_t i = 0; i < MRD_COUNT(reserved_keys); i++)
        d->reserved[i] = mrd_strtab_find(strings, mrd_str_of(reserved_keys[i]));
    d->taken[0] = mrd_strtab_find(strings, MRD_STR("counters"));
    d->taken[1] = mrd_strtab_find(strings, MRD_STR("losses"));
    d->taken[2] = mrd_strtab_find(strings, MRD_STR("meridian"));
    d->taken[3] = mrd_strtab_find(strings, MRD_STR("event"));
    d->many = several_cores(env);
    MRD_JW_KEY(w, "instruction");
    mrd_jw_open(w, '[');
    *ret_device = d;
    return MRD_OK;
}

static bool
is_reserved(const mrd_json_device *d, mrd_sid key)
{
    for (size_t i = 0; i < MRD_COUNT(reserved_keys); i++) {
        if (d->reserved[i] == key && key != MRD_SID_EMPTY)
            return true;
    }
    return false;
}

static void
put_row_args(mrd_json_device *d, mrd_jw *w, const mrd_event *ev)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < ev->arg_count; i++) {
        if (is_reserved(d, ev->args[i].key)) {
            kept++;
            continue;
        }
        mrd_jw_key_sid(w, ev->args[i].key);
        mrd_jw_arg(w, &ev->args[i]);
    }
    if (kept == 0)
        return;
    MRD_JW_KEY(w, "args");
    mrd_jw_open(w, '{');
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        if (!is_reserved(d, ev->args[i].key))
            continue;
        mrd_jw_key_sid(w, ev->args[i].key);
        mrd_jw_arg(w, &ev->args[i]);
    }
    mrd_jw_close(w, '}');
}

static bool
has_section(const mrd_json_device *d, mrd_sid category)
{
    for (size_t i = 0; i < MRD_COUNT(d->taken); i++) {
        if (d->taken[i] == category)
            return false;
    }
    return category != MRD_SID_EMPTY;
}

/* Begins a row with the members that all rows have. */
static void
put_row_head(mrd_json_device *d, mrd_jw *w, const mrd_event *ev)
{
    const mrd_track *t = mrd_catalog_borrow_track(d->env->catalog, ev->track);
    mrd_event bare = *ev;

    if (has_section(d, ev->category))
        bare.category = MRD_SID_EMPTY; /* the section states it */
    mrd_jw_open(w, '{');
    MRD_JW_KEY(w, "timestamp");
    mrd_jw_i64(w, ev->ts.ns);
    MRD_JW_KEY(w, "duration");
    mrd_jw_i64(w, ev->dur_ns < 0 ? 0 : ev->dur_ns);
    if (ev->name != MRD_SID_EMPTY) {
        MRD_JW_KEY(w, "name");
        mrd_jw_sid(w, ev->name);
    }
    MRD_JW_KEY(w, "track");
    mrd_jw_sid(w, t->name);
    if (d->many) {
        const mrd_process *p = mrd_catalog_borrow_process(d->env->catalog, t->process);

        MRD_JW_KEY(w, "instance_id");
        mrd_jw_sid(w, p->instance_id);
        MRD_JW_KEY(w, "process_id");
        mrd_jw_i64_text(w, p->process_id);
        if (t->lnc_idx != MRD_NONE) {
            MRD_JW_KEY(w, "nc_idx");
            mrd_jw_i64(w, t->lnc_idx);
        }
    }
    if (ev->id != 0 && ev->kind != MRD_FLOW) {
        MRD_JW_KEY(w, "id");
        mrd_jw_u64(w, ev->id);
    }
    mrd_json_put_marks(w, &bare);
}

static mrd_jw_spool *
section_of(mrd_json_device *d, mrd_sid category)
{
    for (size_t i = 1; i < d->n_sections; i++) {
        if (d->section[i].name == category)
            return &d->section[i].spool;
    }
    if (d->n_sections == DEVICE_SECTIONS)
        return &d->section[0].spool;
    /* The first section is "event". It has rows without a kind, and rows of too many kinds. */
    if (d->n_sections == 0)
        d->n_sections = 1;
    if (!has_section(d, category))
        return &d->section[0].spool;
    d->section[d->n_sections].name = category;
    return &d->section[d->n_sections++].spool;
}

static mrd_jw *
spool_writer(mrd_json_device *d, mrd_jw_spool *spool)
{
    return mrd_jw_spool_writer(spool, mrd_catalog_strings(d->env->catalog), d->env->options->pretty,
                               2);
}

static mrd_err
put_extra(mrd_json_device *d, const mrd_event *ev)
{
    mrd_jw *w = spool_writer(d, ev->kind == MRD_LOSS ? &d->losses : &d->counters);

    if (w == NULL)
        return MRD_NOMEM;
    put_row_head(d, w, ev);
    if (ev->kind == MRD_LOSS) {
        MRD_JW_KEY(w, "lost");
        mrd_jw_i64(w, ev->ivalue);
    } else {
        MRD_JW_KEY(w, "value");
        mrd_json_put_sample(w, ev);
    }
    mrd_jw_close(w, '}');
    return MRD_OK;
}

mrd_err
mrd_json_device_event(mrd_json_device *d, mrd_jw *w, const mrd_event *ev)
{
    mrd_flow flow = { .id = ev->id, .dir = (mrd_flow_dir) ev->flow_dir };
    mrd_event row = *ev;

    if (ev->track >= mrd_catalog_tracks(d->env->catalog))
        return MRD_STATE;
    if (ev->kind == MRD_COUNTER || ev->kind == MRD_LOSS)
        return put_extra(d, ev);
    if (ev->kind == MRD_FLOW) {
        row.kind = MRD_INSTANT;
        row.id = 0;
        row.flows = &flow;
        row.flow_count = 1;
    }
    if (d->instruction == MRD_SID_EMPTY || ev->category != d->instruction) {
        if ((w = spool_writer(d, section_of(d, ev->category))) == NULL)
            return MRD_NOMEM;
    }
    put_row_head(d, w, &row);
    put_row_args(d, w, ev);
    mrd_jw_close(w, '}');
    return MRD_OK;
}

static mrd_err
put_section(mrd_jw *w, mrd_str key, mrd_jw_spool *spool, mrd_why *why)
{
    mrd_err err;

    if (spool->elements == 0)
        return MRD_OK;
    mrd_jw_key(w, key);
    mrd_jw_open(w, '[');
    err = mrd_jw_spool_drain(spool, w, why);
    mrd_jw_close(w, ']');
    return err;
}

mrd_err
mrd_json_device_close(mrd_json_device *d, mrd_jw *w, mrd_why *why)
{
    mrd_err err = MRD_OK;

    mrd_jw_close(w, ']');
    for (size_t i = 0; i < d->n_sections && err == MRD_OK; i++) {
        device_section *s = &d->section[i];

        if (s->name == MRD_SID_EMPTY) {
            err = put_section(w, MRD_STR("event"), &s->spool, why);
        } else if (s->spool.elements > 0) {
            mrd_jw_key_sid(w, s->name);
            mrd_jw_open(w, '[');
            err = mrd_jw_spool_drain(&s->spool, w, why);
            mrd_jw_close(w, ']');
        }
    }
    if (err == MRD_OK)
        err = put_section(w, MRD_STR("counters"), &d->counters, why);
    if (err == MRD_OK)
        err = put_section(w, MRD_STR("losses"), &d->losses, why);
    for (size_t i = 0; i < d->n_sections; i++)
        mrd_jw_spool_fini(&d->section[i].spool);
    mrd_jw_spool_fini(&d->counters);
    mrd_jw_spool_fini(&d->losses);
    free(d);
    return err;
}
