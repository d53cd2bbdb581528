#include "aggregator/core/node/part.h"

#include <stdio.h>

#include "aggregator/core/common/text.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"

static const char *const states[MRD_PART_STATES] = { "armed",   "recording", "stopping", "flushed",
                                                     "refused", "lost",      "missing" };

const char *
mrd_part_state_text(mrd_part_state state)
{
    return state < MRD_PART_STATES ? states[state] : "unknown";
}

mrd_part_state
mrd_part_state_of(const char *text)
{
    return (mrd_part_state) mrd_text_index(states, MRD_PART_STATES, text, MRD_PART_LOST);
}

mrd_part *
mrd_part_new(const mrd_node *node, uint64_t number)
{
    mrd_part *part = calloc(1, sizeof(*part));

    if (part == NULL)
        return NULL;
    mrd_text_set(part->instance_id, sizeof(part->instance_id), node->instance_id);
    mrd_text_set(part->host_name, sizeof(part->host_name), node->host_name);
    mrd_text_set(part->boot_id, sizeof(part->boot_id), node->boot_id);
    part->number = number;
    mrd_text_set(part->release, sizeof(part->release), node->release);
    mrd_text_set(part->commit, sizeof(part->commit), node->commit);
    part->local = node->hello_local;
    part->wall = node->hello_wall;
    part->start_bound = part->clock.bound = -1;
    part->first.ns = INT64_MAX;
    part->last.ns = INT64_MIN;
    part->simulated = node->simulated;
    part->state = MRD_PART_ARMED;
    return part;
}

void
mrd_part_free(mrd_part *part)
{
    if (part == NULL)
        return;
    for (unsigned i = 0; i < part->n_epochs; i++)
        mrd_seqset_free(part->epochs[i].stored);
    free(part->epochs);
    free(part->runs);
    mrd_json_free(part->device_profiles);
    mrd_node_models_unref(part->models);
    mrd_runtime_features_unref(part->features);
    free(part);
}

static uint64_t
frames_of(const mrd_part_epoch *epoch)
{
    uint64_t end = mrd_seqset_end(epoch->stored);

    return end - mrd_seqset_missing(epoch->stored, end);
}

mrd_part *
mrd_part_copy(const mrd_part *part)
{
    mrd_part *c = malloc(sizeof(*c));

    if (c == NULL)
        return NULL;
    memcpy(c, part, offsetof(mrd_part, counts));
    mrd_counts_copy(&c->counts, &part->counts);
    mrd_counts_copy(&c->before, &part->before);
    mrd_counts_copy(&c->last_run, &part->last_run);
    mrd_node_models_ref(c->models);
    mrd_runtime_features_ref(c->features);
    c->device_profiles = NULL;
    c->epochs = NULL;
    c->n_epochs = 0;
    c->runs = NULL;
    c->n_runs = 0;
    if ((part->device_profiles != NULL &&
         (c->device_profiles = mrd_json_copy(part->device_profiles)) == NULL) ||
        (part->n_epochs > 0 && (c->epochs = calloc(part->n_epochs, sizeof(*c->epochs))) == NULL) ||
        (part->n_runs > 0 && (c->runs = calloc(part->n_runs, sizeof(*c->runs))) == NULL)) {
        mrd_part_free(c);
        return NULL;
    }
    for (; c->n_runs < part->n_runs; c->n_runs++)
        c->runs[c->n_runs] = part->runs[c->n_runs];
    for (unsigned i = 0; i < part->n_epochs; i++) {
        const mrd_part_epoch *epoch = &part->epochs[i];

        c->epochs[c->n_epochs++] =
            (mrd_part_epoch){ .epoch = epoch->epoch,
                              .end = epoch->end,
                              .since = epoch->since,
                              .stored_end = mrd_part_epoch_end(epoch),
                              .stored_missing = mrd_part_epoch_missing(epoch),
                              .stored_frames = frames_of(epoch) };
    }
    return c;
}

bool
mrd_part_is_without(const mrd_part *part)
{
    return part->state == MRD_PART_REFUSED || part->state == MRD_PART_LOST ||
           part->state == MRD_PART_MISSING;
}

bool
mrd_part_is_over(const mrd_part *part)
{
    return part->state == MRD_PART_FLUSHED || mrd_part_is_without(part);
}

mrd_dur_ns
mrd_part_shift(const mrd_part *part)
{
    bool aligned = part->clock.state[0] != '\0' && part->clock.bound >= 0;

    return aligned ? part->clock.offset
                   : (int64_t) ((uint64_t) part->wall.ns - (uint64_t) part->local.ns);
}

mrd_sess_ns
mrd_part_began(const mrd_part *part)
{
    /* unsigned, because signed sums of times from a manifest could overflow */
    uint64_t began = (uint64_t) part->started.ns;

    if (part->started.ns == 0 || part->state == MRD_PART_REFUSED || part->state == MRD_PART_MISSING)
        return (mrd_sess_ns){ 0 };
    began += (uint64_t) mrd_part_shift(part);
    return (mrd_sess_ns){ mrd_time_checked((int64_t) began) };
}

mrd_dur_ns
mrd_part_holes(const mrd_part *part, const mrd_gap *pauses, size_t n)
{
    mrd_local_ns end = { part->stopped.ns == 0 ? INT64_MAX : part->stopped.ns };

    return mrd_counts_holes(&part->counts, pauses, n, part->started, end);
}

bool
mrd_part_knows(const mrd_part *part, size_t trigger)
{
    return (part->acknowledged[trigger / 64] >> (trigger % 64) & 1) != 0;
}

/* ---- Stored frames ---- */

mrd_part_epoch *
mrd_part_epoch_find(const mrd_part *part, uint64_t epoch)
{
    for (unsigned i = 0; i < part->n_epochs; i++) {
        if (part->epochs[i].epoch == epoch)
            return &part->epochs[i];
    }
    return NULL;
}

mrd_part_epoch *
mrd_part_epoch_of(mrd_part *part, uint64_t epoch)
{
    mrd_part_epoch *part_epoch = mrd_part_epoch_find(part, epoch);

    if (part_epoch != NULL || part->n_epochs == MRD_EPOCHS_MAX)
        return part_epoch;
    if (!MRD_VEC_NEXT(part->epochs, part->n_epochs))
        return NULL;
    part_epoch = &part->epochs[part->n_epochs];
    *part_epoch = (mrd_part_epoch){ .epoch = epoch, .stored = mrd_seqset_new() };
    if (part_epoch->stored == NULL)
        return NULL;
    part->n_epochs++;
    return part_epoch;
}

uint64_t
mrd_part_epoch_end(const mrd_part_epoch *epoch)
{
    uint64_t end = epoch->stored == NULL ? epoch->stored_end : mrd_seqset_end(epoch->stored);

    return epoch->end > end ? epoch->end : end;
}

uint64_t
mrd_part_epoch_missing(const mrd_part_epoch *epoch)
{
    return epoch->stored == NULL ? epoch->stored_missing
                                 : mrd_seqset_missing(epoch->stored, mrd_part_epoch_end(epoch));
}

uint64_t
mrd_part_frames(const mrd_part *part)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < part->n_epochs; i++) {
        const mrd_part_epoch *epoch = &part->epochs[i];

        sum += epoch->stored == NULL ? epoch->stored_frames : frames_of(epoch);
    }
    return sum;
}

static uint64_t
larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

bool
mrd_part_damaged(mrd_part *part, const mrd_damage *found, bool whole)
{
    mrd_damage now = whole
                         ? *found
                         : (mrd_damage){ .events = larger(part->damage.events, found->events),
                                         .frames = larger(part->damage.frames, found->frames),
                                         .foreign = larger(part->damage.foreign, found->foreign) };

    if (memcmp(&now, &part->damage, sizeof(now)) == 0)
        return false;
    part->damage = now;
    return true;
}

bool
mrd_part_has(const mrd_part *part, const mrd_frame *frame)
{
    const mrd_part_epoch *epoch = mrd_part_epoch_find(part, frame->epoch);

    return epoch != NULL && mrd_seqset_has(epoch->stored, frame->seq);
}

mrd_err
mrd_part_may_store(const mrd_part *part, const mrd_frame *frame)
{
    const mrd_part_epoch *epoch = mrd_part_epoch_find(part, frame->epoch);

    /* the set of numbers stores the highest number + 1, which would overflow */
    if (frame->seq == UINT64_MAX)
        return MRD_LIMIT;
    if (epoch == NULL)
        return part->n_epochs == MRD_EPOCHS_MAX ? MRD_LIMIT : MRD_OK;
    return mrd_seqset_is_full(epoch->stored, frame->seq) ? MRD_LIMIT : MRD_OK;
}

uint64_t
mrd_part_gaps(const mrd_part *part)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < part->n_epochs; i++)
        sum += mrd_seqset_gaps(part->epochs[i].stored);
    return sum;
}

bool
mrd_part_adds_gap(const mrd_part *part, const mrd_frame *frame)
{
    const mrd_part_epoch *epoch = mrd_part_epoch_find(part, frame->epoch);

    return epoch != NULL && mrd_seqset_adds_gap(epoch->stored, frame->seq);
}

mrd_err
mrd_part_stored(mrd_part *part, const mrd_frame *frame)
{
    mrd_part_epoch *epoch = mrd_part_epoch_of(part, frame->epoch);
    mrd_err err = epoch == NULL ? MRD_LIMIT : mrd_seqset_add(epoch->stored, frame->seq);

    if (err != MRD_OK)
        return err;
    part->bytes += MRD_FRAME_HEADER + frame->body_len;
    if (frame->type != MRD_FRAME_BATCH)
        return MRD_OK;
    part->batches++;
    part->events += frame->events;
    epoch->events += frame->events;
    if (frame->clock == MRD__CLOCK_KIND__CLOCK_RAW) {
        part->first.ns = frame->first.ns < part->first.ns ? frame->first.ns : part->first.ns;
        part->last.ns = frame->last.ns > part->last.ns ? frame->last.ns : part->last.ns;
    }
    return MRD_OK;
}
