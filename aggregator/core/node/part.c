#include "aggregator/core/node/part.h"

#include <stdio.h>

#include "aggregator/core/common/text.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"

static const char *const states[MRD_PART_STATES] = { "armed",   "recording", "stopping", "flushed",
                                                     "refused", "lost",      "missing" };

const char *
mrd_part_state_text(mrd_part_state s)
{
    return s < MRD_PART_STATES ? states[s] : "unknown";
}

mrd_part_state
mrd_part_state_of(const char *text)
{
    return (mrd_part_state) mrd_text_index(states, MRD_PART_STATES, text, MRD_PART_LOST);
}

mrd_part *
mrd_part_new(const mrd_node *n, uint64_t number)
{
    mrd_part *p = calloc(1, sizeof(*p));

    if (p == NULL)
        return NULL;
    mrd_text_set(p->instance_id, sizeof(p->instance_id), n->instance_id);
    mrd_text_set(p->host_name, sizeof(p->host_name), n->host_name);
    mrd_text_set(p->boot_id, sizeof(p->boot_id), n->boot_id);
    p->number = number;
    mrd_text_set(p->release, sizeof(p->release), n->release);
    mrd_text_set(p->commit, sizeof(p->commit), n->commit);
    p->local = n->hello_local;
    p->wall = n->hello_wall;
    p->start_bound = p->clock.bound = -1;
    p->first.ns = INT64_MAX;
    p->last.ns = INT64_MIN;
    p->simulated = n->simulated;
    p->state = MRD_PART_ARMED;
    return p;
}

void
mrd_part_free(mrd_part *p)
{
    if (p == NULL)
        return;
    for (unsigned i = 0; i < p->n_epochs; i++)
        mrd_seqset_free(p->epochs[i].stored);
    free(p->epochs);
    free(p->runs);
    mrd_json_free(p->device_profiles);
    mrd_node_models_unref(p->models);
    mrd_runtime_features_unref(p->features);
    free(p);
}

static uint64_t
frames_of(const mrd_part_epoch *e)
{
    uint64_t end = mrd_seqset_end(e->stored);

    return end - mrd_seqset_missing(e->stored, end);
}

mrd_part *
mrd_part_copy(const mrd_part *p)
{
    mrd_part *c = malloc(sizeof(*c));

    if (c == NULL)
        return NULL;
    memcpy(c, p, offsetof(mrd_part, counts));
    mrd_counts_copy(&c->counts, &p->counts);
    mrd_counts_copy(&c->before, &p->before);
    mrd_counts_copy(&c->last_run, &p->last_run);
    mrd_node_models_ref(c->models);
    mrd_runtime_features_ref(c->features);
    c->device_profiles = NULL;
    c->epochs = NULL;
    c->n_epochs = 0;
    c->runs = NULL;
    c->n_runs = 0;
    if ((p->device_profiles != NULL &&
         (c->device_profiles = mrd_json_copy(p->device_profiles)) == NULL) ||
        (p->n_epochs > 0 && (c->epochs = calloc(p->n_epochs, sizeof(*c->epochs))) == NULL) ||
        (p->n_runs > 0 && (c->runs = calloc(p->n_runs, sizeof(*c->runs))) == NULL)) {
        mrd_part_free(c);
        return NULL;
    }
    for (; c->n_runs < p->n_runs; c->n_runs++)
        c->runs[c->n_runs] = p->runs[c->n_runs];
    for (unsigned i = 0; i < p->n_epochs; i++) {
        const mrd_part_epoch *e = &p->epochs[i];

        c->epochs[c->n_epochs++] = (mrd_part_epoch){ .epoch = e->epoch,
                                                     .end = e->end,
                                                     .since = e->since,
                                                     .stored_end = mrd_part_epoch_end(e),
                                                     .stored_missing = mrd_part_epoch_missing(e),
                                                     .stored_frames = frames_of(e) };
    }
    return c;
}

bool
mrd_part_is_without(const mrd_part *p)
{
    return p->state == MRD_PART_REFUSED || p->state == MRD_PART_LOST ||
           p->state == MRD_PART_MISSING;
}

bool
mrd_part_is_over(const mrd_part *p)
{
    return p->state == MRD_PART_FLUSHED || mrd_part_is_without(p);
}

mrd_dur_ns
mrd_part_shift(const mrd_part *p)
{
    bool aligned = p->clock.state[0] != '\0' && p->clock.bound >= 0;

    return aligned ? p->clock.offset : (int64_t) ((uint64_t) p->wall.ns - (uint64_t) p->local.ns);
}

mrd_sess_ns
mrd_part_began(const mrd_part *p)
{
    uint64_t began = (uint64_t) p->started.ns; /* a manifest may contain any number */

    if (p->started.ns == 0 || p->state == MRD_PART_REFUSED || p->state == MRD_PART_MISSING)
        return (mrd_sess_ns){ 0 };
    began += (uint64_t) mrd_part_shift(p);
    return (mrd_sess_ns){ mrd_time_checked((int64_t) began) };
}

mrd_dur_ns
mrd_part_holes(const mrd_part *p, const mrd_gap *pauses, size_t n)
{
    mrd_local_ns end = { p->stopped.ns == 0 ? INT64_MAX : p->stopped.ns };

    return mrd_counts_holes(&p->counts, pauses, n, p->started, end);
}

bool
mrd_part_knows(const mrd_part *p, size_t trigger)
{
    return (p->acknowledged[trigger / 64] >> (trigger % 64) & 1) != 0;
}

/* ---- Frames ---- */

mrd_part_epoch *
mrd_part_epoch_find(const mrd_part *p, uint64_t epoch)
{
    for (unsigned i = 0; i < p->n_epochs; i++) {
        if (p->epochs[i].epoch == epoch)
            return &p->epochs[i];
    }
    return NULL;
}

mrd_part_epoch *
mrd_part_epoch_of(mrd_part *p, uint64_t epoch)
{
    mrd_part_epoch *e = mrd_part_epoch_find(p, epoch);

    if (e != NULL || p->n_epochs == MRD_EPOCHS_MAX)
        return e;
    if (!MRD_VEC_NEXT(p->epochs, p->n_epochs))
        return NULL;
    e = &p->epochs[p->n_epochs];
    *e = (mrd_part_epoch){ .epoch = epoch, .stored = mrd_seqset_new() };
    if (e->stored == NULL)
        return NULL;
    p->n_epochs++;
    return e;
}

uint64_t
mrd_part_epoch_end(const mrd_part_epoch *e)
{
    uint64_t end = e->stored == NULL ? e->stored_end : mrd_seqset_end(e->stored);

    return e->end > end ? e->end : end;
}

uint64_t
mrd_part_epoch_missing(const mrd_part_epoch *e)
{
    return e->stored == NULL ? e->stored_missing
                             : mrd_seqset_missing(e->stored, mrd_part_epoch_end(e));
}

uint64_t
mrd_part_frames(const mrd_part *p)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < p->n_epochs; i++) {
        const mrd_part_epoch *e = &p->epochs[i];

        sum += e->stored == NULL ? e->stored_frames : frames_of(e);
    }
    return sum;
}

static uint64_t
larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

bool
mrd_part_damaged(mrd_part *p, const mrd_damage *found, bool whole)
{
    mrd_damage now = whole ? *found
                           : (mrd_damage){ .events = larger(p->damage.events, found->events),
                                           .frames = larger(p->damage.frames, found->frames),
                                           .foreign = larger(p->damage.foreign, found->foreign) };

    if (memcmp(&now, &p->damage, sizeof(now)) == 0)
        return false;
    p->damage = now;
    return true;
}

bool
mrd_part_has(const mrd_part *p, const mrd_frame *f)
{
    const mrd_part_epoch *e = mrd_part_epoch_find(p, f->epoch);

    return e != NULL && mrd_seqset_has(e->stored, f->seq);
}

mrd_err
mrd_part_may_store(const mrd_part *p, const mrd_frame *f)
{
    const mrd_part_epoch *e = mrd_part_epoch_find(p, f->epoch);

    if (f->seq == UINT64_MAX) /* a set of numbers stores the number after its end */
        return MRD_LIMIT;
    if (e == NULL)
        return p->n_epochs == MRD_EPOCHS_MAX ? MRD_LIMIT : MRD_OK;
    return mrd_seqset_is_full(e->stored, f->seq) ? MRD_LIMIT : MRD_OK;
}

uint64_t
mrd_part_gaps(const mrd_part *p)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < p->n_epochs; i++)
        sum += mrd_seqset_gaps(p->epochs[i].stored);
    return sum;
}

bool
mrd_part_adds_gap(const mrd_part *p, const mrd_frame *f)
{
    const mrd_part_epoch *e = mrd_part_epoch_find(p, f->epoch);

    return e != NULL && mrd_seqset_adds_gap(e->stored, f->seq);
}

mrd_err
mrd_part_stored(mrd_part *p, const mrd_frame *f)
{
    mrd_part_epoch *e = mrd_part_epoch_of(p, f->epoch);
    mrd_err err = e == NULL ? MRD_LIMIT : mrd_seqset_add(e->stored, f->seq);

    if (err != MRD_OK)
        return err;
    p->bytes += MRD_FRAME_HEADER + f->body_len;
    if (f->type != MRD_FRAME_BATCH)
        return MRD_OK;
    p->batches++;
    p->events += f->events;
    e->events += f->events;
    if (f->clock == MRD__CLOCK_KIND__CLOCK_RAW) {
        p->first.ns = f->first.ns < p->first.ns ? f->first.ns : p->first.ns;
        p->last.ns = f->last.ns > p->last.ns ? f->last.ns : p->last.ns;
    }
    return MRD_OK;
}
