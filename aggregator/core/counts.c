#include "aggregator/core/counts.h"

#include "aggregator/core/json.h"
#include "aggregator/core/text.h"

static mrd_loss *
loss_of(mrd_counts *c, const char *cause)
{
    for (unsigned i = 0; i < c->n_losses; i++) {
        if (strcmp(c->losses[i].cause, cause) == 0)
            return &c->losses[i];
    }
    return NULL;
}

void
mrd_counts_add_loss(mrd_counts *to, const mrd_loss *loss)
{
    mrd_loss *slot = loss_of(to, loss->cause);

    if (slot != NULL) {
        slot->first.ns = loss->first.ns < slot->first.ns ? loss->first.ns : slot->first.ns;
        slot->last.ns = loss->last.ns > slot->last.ns ? loss->last.ns : slot->last.ns;
        slot->count = mrd_count_checked(slot->count + loss->count);
    } else if (to->n_losses == MRD_LOSSES_MAX) { /* gather the rest */
        slot = &to->losses[MRD_LOSSES_MAX - 1];
        mrd_text_set(slot->cause, sizeof(slot->cause), "other");
        slot->count += loss->count;
    } else {
        to->losses[to->n_losses++] = *loss;
    }
}

void
mrd_counts_add(mrd_counts *to, const mrd_counts *from)
{
    to->begun += from->begun;
    to->delivered += from->delivered;
    to->clock_lost += from->clock_lost;
    to->held += from->held;
    for (unsigned i = 0; i < from->n_losses; i++)
        mrd_counts_add_loss(to, &from->losses[i]);
}

void
mrd_counts_subtract(mrd_counts *from, const mrd_counts *last)
{
    from->begun -= last->begun;
    from->delivered -= last->delivered;
    from->held -= last->held;
    from->clock_lost -= last->clock_lost;
    for (unsigned i = 0; i < last->n_losses; i++) {
        mrd_loss *slot = loss_of(from, last->losses[i].cause);

        if (slot != NULL)
            slot->count -= last->losses[i].count;
    }
}

void
mrd_counts_take(mrd_counts *to, const Mrd__Counters *from)
{
    if (from == NULL)
        return;
    *to = (mrd_counts){ .begun = mrd_count_checked(from->begun),
                        .delivered = mrd_count_checked(from->delivered),
                        .held = mrd_count_checked(from->held),
                        .clock_lost = mrd_count_checked(from->clock_frames_lost) };
    for (size_t i = 0; i < from->n_drops; i++) {
        const Mrd__Drop *d = from->drops[i];
        mrd_loss loss = { .count = mrd_count_checked(d->count),
                          .first = { d->first_ns },
                          .last = { d->last_ns } };

        mrd_text_set(loss.cause, sizeof(loss.cause), d->cause);
        mrd_counts_add_loss(to, &loss);
    }
}

uint64_t
mrd_counts_lost(const mrd_counts *c)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < c->n_losses; i++)
        sum += c->losses[i].count;
    return sum;
}

uint64_t
mrd_counts_unwanted(const mrd_counts *c)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < c->n_losses; i++) {
        if (strcmp(c->losses[i].cause, "not-recorded") == 0 ||
            strcmp(c->losses[i].cause, "recorder-window") == 0)
            sum += c->losses[i].count;
    }
    return sum;
}

mrd_json *
mrd_counts_json(const mrd_counts *c)
{
    mrd_json *o = mrd_json_new_object(), *losses = mrd_json_new_array();

    mrd_json_set(o, "begun", mrd_json_new_count(c->begun));
    mrd_json_set(o, "delivered", mrd_json_new_count(c->delivered));
    mrd_json_set(o, "held", mrd_json_new_count(c->held));
    mrd_json_set(o, "dropped", mrd_json_new_count(mrd_counts_lost(c)));
    mrd_json_set(o, "unwanted", mrd_json_new_count(mrd_counts_unwanted(c)));
    for (unsigned i = 0; i < c->n_losses; i++) {
        mrd_json *d = mrd_json_new_object();

        mrd_json_set(d, "cause", mrd_json_new_str(c->losses[i].cause));
        mrd_json_set(d, "count", mrd_json_new_count(c->losses[i].count));
        mrd_json_set(d, "first_local_ns", mrd_json_new_int(c->losses[i].first.ns));
        mrd_json_set(d, "last_local_ns", mrd_json_new_int(c->losses[i].last.ns));
        mrd_json_append(losses, d);
    }
    mrd_json_set(o, "drops", losses);
    mrd_json_set(o, "clock_frames_lost", mrd_json_new_count(c->clock_lost));
    return o;
}

void
mrd_counts_load(mrd_counts *c, const mrd_json *o)
{
    const mrd_json *losses = mrd_json_get(o, "drops");

    c->begun = (uint64_t) mrd_json_int(o, "begun", 0);
    c->delivered = (uint64_t) mrd_json_int(o, "delivered", 0);
    c->held = (uint64_t) mrd_json_int(o, "held", 0);
    c->clock_lost = (uint64_t) mrd_json_int(o, "clock_frames_lost", 0);
    for (size_t i = 0; losses != NULL && i < mrd_json_size(losses) && i < MRD_LOSSES_MAX; i++) {
        const mrd_json *d = mrd_json_at(losses, i);
        mrd_loss *to = &c->losses[c->n_losses++];

        mrd_text_set(to->cause, sizeof(to->cause), mrd_json_str(d, "cause", "other"));
        to->count = (uint64_t) mrd_json_int(d, "count", 0);
        to->first.ns = mrd_json_int(d, "first_local_ns", 0);
        to->last.ns = mrd_json_int(d, "last_local_ns", 0);
    }
}
