#include "aggregator/core/node/counts.h"

#include "aggregator/core/common/json.h"
#include "aggregator/core/common/text.h"
#include "base/loss_cause.h"
#include "base/num.h"
#include "base/obj.h"

static mrd_loss *
loss_of(mrd_counts *counts, const char *cause)
{
    for (unsigned i = 0; i < counts->n_losses; i++) {
        if (strcmp(counts->losses[i].cause, cause) == 0)
            return &counts->losses[i];
    }
    return NULL;
}

void
mrd_counts_add_loss(mrd_counts *to, const mrd_loss *loss)
{
    mrd_loss *slot = loss_of(to, loss->cause);

    if (slot == NULL && to->n_losses < MRD_LOSSES_MAX) {
        to->losses[to->n_losses++] = *loss;
        return;
    }
    /* the table is full, so the last entry collects all further causes of loss */
    if (slot == NULL) {
        slot = &to->losses[MRD_LOSSES_MAX - 1];
        mrd_text_set(slot->cause, sizeof(slot->cause), "other");
    }
    slot->first.ns = loss->first.ns < slot->first.ns ? loss->first.ns : slot->first.ns;
    slot->last.ns = loss->last.ns > slot->last.ns ? loss->last.ns : slot->last.ns;
    slot->count = mrd_count_checked(slot->count + loss->count);
}

/* Returns the index of the cause in `losses`. If the cause is not there, returns the last index,
 * which collects all further causes. */
static uint8_t
row_of(const mrd_counts *counts, const char *cause)
{
    for (unsigned i = 0; i < counts->n_losses; i++)
        if (strcmp(counts->losses[i].cause, cause) == 0)
            return (uint8_t) i;
    return counts->n_losses == 0 ? 0 : (uint8_t) (counts->n_losses - 1);
}

/* Adds the time ranges in which events were lost for one cause (gaps). Ignores gaps with impossible
 * times. */
static void
gaps_take(mrd_counts *to, const Mrd__Drop *drop)
{
    for (size_t i = 0; i < drop->n_gaps && i < MRD_GAPS_MAX; i++) {
        const Mrd__Gap *g = drop->gaps[i];
        mrd_gap gap = { .first = { g->first_ns },
                        .last = { g->last_ns },
                        .count = mrd_count_checked(g->count),
                        .cause = row_of(to, drop->cause),
                        .marked = g->marked };

        if (mrd_time_sane(gap.first.ns) && mrd_time_sane(gap.last.ns))
            mrd_gaps_add(&to->gaps, &gap);
    }
    to->gaps.merged = to->gaps.merged || drop->gaps_merged;
}

/* Sets the numbers of events, and empties the lists of losses and gaps. */
static void
counts_begin(mrd_counts *to, uint64_t begun, uint64_t delivered, uint64_t held, uint64_t clock_lost)
{
    to->begun = begun;
    to->delivered = delivered;
    to->held = held;
    to->clock_lost = clock_lost;
    to->n_losses = 0;
    to->gaps.n = 0;
    to->gaps.merged = false;
}

void
mrd_counts_clear(mrd_counts *counts)
{
    counts_begin(counts, 0, 0, 0, 0);
}

void
mrd_counts_copy(mrd_counts *to, const mrd_counts *from)
{
    counts_begin(to, from->begun, from->delivered, from->held, from->clock_lost);
    memcpy(to->losses, from->losses, from->n_losses * sizeof(to->losses[0]));
    to->n_losses = from->n_losses;
    memcpy(to->gaps.v, from->gaps.v, from->gaps.n * sizeof(to->gaps.v[0]));
    to->gaps.n = from->gaps.n;
    to->gaps.merged = from->gaps.merged;
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
    for (unsigned i = 0; i < from->gaps.n; i++) {
        mrd_gap gap = from->gaps.v[i];

        gap.cause = row_of(to, from->losses[gap.cause].cause);
        mrd_gaps_add(&to->gaps, &gap);
    }
    to->gaps.merged = to->gaps.merged || from->gaps.merged;
}

static bool
has_gap(const mrd_counts *counts, const char *cause, const mrd_gap *gap)
{
    for (unsigned i = 0; i < counts->gaps.n; i++) {
        const mrd_gap *other = &counts->gaps.v[i];

        if (other->first.ns == gap->first.ns && other->last.ns == gap->last.ns &&
            strcmp(counts->losses[other->cause].cause, cause) == 0)
            return true;
    }
    return false;
}

void
mrd_counts_subtract(mrd_counts *from, const mrd_counts *last)
{
    uint32_t left = 0;

    from->begun -= last->begun;
    from->delivered -= last->delivered;
    from->held -= last->held;
    from->clock_lost -= last->clock_lost;
    for (unsigned i = 0; i < last->n_losses; i++) {
        mrd_loss *slot = loss_of(from, last->losses[i].cause);

        if (slot != NULL)
            slot->count -= last->losses[i].count;
    }
    for (unsigned i = 0; i < from->gaps.n; i++)
        if (!has_gap(last, from->losses[from->gaps.v[i].cause].cause, &from->gaps.v[i]))
            from->gaps.v[left++] = from->gaps.v[i];
    from->gaps.n = left;
}

static bool
has_gaps(const mrd_counts *counts, unsigned row)
{
    for (unsigned i = 0; i < counts->gaps.n; i++)
        if (counts->gaps.v[i].cause == row)
            return true;
    return false;
}

void
mrd_counts_tidy(mrd_counts *counts)
{
    unsigned left = 0;

    for (unsigned row = 0; row < counts->n_losses; row++) {
        if (counts->losses[row].count == 0 && !has_gaps(counts, row))
            continue;
        for (unsigned i = 0; i < counts->gaps.n; i++)
            if (counts->gaps.v[i].cause == row)
                counts->gaps.v[i].cause = (uint8_t) left;
        counts->losses[left++] = counts->losses[row];
    }
    counts->n_losses = left;
}

void
mrd_counts_move(mrd_counts *to, const mrd_counts *come, const mrd_counts *base)
{
    mrd_counts losses = { 0 };

    memcpy(losses.losses, come->losses, sizeof(losses.losses));
    losses.n_losses = come->n_losses;
    losses.gaps = come->gaps;
    mrd_counts_add(to, &losses);
    for (unsigned i = 0; i < base->n_losses; i++) {
        mrd_loss row = base->losses[i];
        mrd_loss *slot = loss_of(to, row.cause);

        row.count = -row.count;
        if (slot != NULL)
            slot->count += row.count;
        else if (to->n_losses < MRD_LOSSES_MAX)
            to->losses[to->n_losses++] = row;
    }
}

static void
drops_take(mrd_counts *to, Mrd__Drop *const *drops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const Mrd__Drop *drop = drops[i];
        mrd_loss loss = { .count = mrd_count_checked(drop->count),
                          .first = { drop->first_ns },
                          .last = { drop->last_ns } };

        mrd_text_set(loss.cause, sizeof(loss.cause), drop->cause);
        mrd_counts_add_loss(to, &loss);
    }
}

void
mrd_counts_take_at_boot(mrd_counts *to, const Mrd__CountersAtBoot *from)
{
    counts_begin(to, mrd_count_checked(from->begun), mrd_count_checked(from->delivered),
                 mrd_count_checked(from->held), 0);
    drops_take(to, from->drops, from->n_drops);
}

void
mrd_counts_take(mrd_counts *to, const Mrd__Counters *from)
{
    if (from == NULL)
        return;
    counts_begin(to, mrd_count_checked(from->begun), mrd_count_checked(from->delivered),
                 mrd_count_checked(from->held), mrd_count_checked(from->clock_frames_lost));
    drops_take(to, from->drops, from->n_drops);
    for (size_t i = 0; i < from->n_drops; i++)
        gaps_take(to, from->drops[i]);
}

uint64_t
mrd_counts_lost(const mrd_counts *counts)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < counts->n_losses; i++)
        sum += counts->losses[i].count;
    return sum;
}

uint64_t
mrd_counts_unwanted(const mrd_counts *counts)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < counts->n_losses; i++) {
        if (mrd_drop_effect(mrd_str_of(counts->losses[i].cause)) == MRD_LOSS_UNWANTED)
            sum += counts->losses[i].count;
    }
    return sum;
}

/* ---- Time without a complete record ---- */

static bool
makes_holes(const mrd_loss *loss)
{
    return loss->count > 0 && loss->last.ns > loss->first.ns &&
           mrd_drop_effect(mrd_str_of(loss->cause)) == MRD_LOSS_HOLE;
}

mrd_dur_ns
mrd_counts_holes(const mrd_counts *counts, const mrd_gap *apart, size_t n_apart, mrd_local_ns from,
                 mrd_local_ns to)
{
    mrd_gap gaps[MRD_GAPS_MAX + MRD_LOSSES_MAX + MRD_APART_MAX];
    bool told[MRD_LOSSES_MAX] = { false };
    size_t n = 0;
    mrd_dur_ns others;

    for (size_t i = 0; i < n_apart && i < MRD_APART_MAX; i++)
        gaps[n++] = apart[i];
    others = mrd_gaps_union(gaps, n, from.ns, to.ns);
    for (unsigned i = 0; i < counts->gaps.n; i++) {
        told[counts->gaps.v[i].cause] = true;
        if (makes_holes(&counts->losses[counts->gaps.v[i].cause]))
            gaps[n++] = counts->gaps.v[i];
    }
    /* a cause of loss without gaps counts as one hole, from its first to its last loss */
    for (unsigned i = 0; i < counts->n_losses; i++)
        if (!told[i] && makes_holes(&counts->losses[i]))
            gaps[n++] =
                (mrd_gap){ .first = counts->losses[i].first, .last = counts->losses[i].last };
    return mrd_gaps_union(gaps, n, from.ns, to.ns) - others;
}

/* ---- Counts in the manifest ---- */

static mrd_json *
gap_json(const mrd_gap *gap)
{
    mrd_json *json = mrd_json_new_object();

    mrd_json_set(json, "count", mrd_json_new_count(gap->count));
    mrd_json_set(json, "first_local_ns", mrd_json_new_int(gap->first.ns));
    mrd_json_set(json, "last_local_ns", mrd_json_new_int(gap->last.ns));
    mrd_json_set(json, "marked", mrd_json_new_bool(gap->marked));
    return json;
}

static void
put_gaps(const mrd_gaps *gaps, unsigned cause, mrd_json *to)
{
    mrd_json *list = mrd_json_new_array();
    size_t n = 0;

    for (unsigned i = 0; i < gaps->n; i++)
        if (gaps->v[i].cause == cause) {
            mrd_json_append(list, gap_json(&gaps->v[i]));
            n++;
        }
    if (n == 0) {
        mrd_json_free(list);
        return;
    }
    mrd_json_set(to, "gaps", list);
    if (gaps->merged)
        mrd_json_set(to, "gaps_merged", mrd_json_new_bool(true));
}

mrd_json *
mrd_counts_json(const mrd_counts *counts)
{
    mrd_json *json = mrd_json_new_object(), *losses = mrd_json_new_array();

    mrd_json_set(json, "begun", mrd_json_new_count(counts->begun));
    mrd_json_set(json, "delivered", mrd_json_new_count(counts->delivered));
    mrd_json_set(json, "held", mrd_json_new_count(counts->held));
    mrd_json_set(json, "dropped", mrd_json_new_count(mrd_counts_lost(counts)));
    mrd_json_set(json, "unwanted", mrd_json_new_count(mrd_counts_unwanted(counts)));
    for (unsigned i = 0; i < counts->n_losses; i++) {
        mrd_json *d = mrd_json_new_object();

        mrd_json_set(d, "cause", mrd_json_new_str(counts->losses[i].cause));
        mrd_json_set(d, "count", mrd_json_new_count(counts->losses[i].count));
        mrd_json_set(d, "first_local_ns", mrd_json_new_int(counts->losses[i].first.ns));
        mrd_json_set(d, "last_local_ns", mrd_json_new_int(counts->losses[i].last.ns));
        put_gaps(&counts->gaps, i, d);
        mrd_json_append(losses, d);
    }
    mrd_json_set(json, "drops", losses);
    mrd_json_set(json, "clock_frames_lost", mrd_json_new_count(counts->clock_lost));
    return json;
}

static void
gaps_load(mrd_gaps *to, const mrd_json *drop, uint8_t cause)
{
    const mrd_json *gaps = mrd_json_get(drop, "gaps");

    for (size_t i = 0; gaps != NULL && i < mrd_json_size(gaps) && i < MRD_GAPS_MAX; i++) {
        const mrd_json *json = mrd_json_at(gaps, i);
        mrd_gap gap = { .first = { mrd_json_int(json, "first_local_ns", 0) },
                        .last = { mrd_json_int(json, "last_local_ns", 0) },
                        .count = (uint64_t) mrd_json_int(json, "count", 0),
                        .cause = cause,
                        .marked = mrd_json_bool(json, "marked", false) };

        mrd_gaps_add(to, &gap);
    }
    to->merged = to->merged || mrd_json_bool(drop, "gaps_merged", false);
}

void
mrd_counts_load(mrd_counts *counts, const mrd_json *json)
{
    const mrd_json *losses = mrd_json_get(json, "drops");

    counts->begun = (uint64_t) mrd_json_int(json, "begun", 0);
    counts->delivered = (uint64_t) mrd_json_int(json, "delivered", 0);
    counts->held = (uint64_t) mrd_json_int(json, "held", 0);
    counts->clock_lost = (uint64_t) mrd_json_int(json, "clock_frames_lost", 0);
    for (size_t i = 0; losses != NULL && i < mrd_json_size(losses) && i < MRD_LOSSES_MAX; i++) {
        const mrd_json *d = mrd_json_at(losses, i);
        const char *cause = mrd_json_str(d, "cause", "other");
        uint64_t count = (uint64_t) mrd_json_int(d, "count", 0);
        mrd_loss *to = &counts->losses[counts->n_losses];

        if (mrd_drop_of(mrd_str_of(cause)) == MRD_DROP_STORE_MISSING) {
            counts->delivered += count;
            continue;
        }
        mrd_text_set(to->cause, sizeof(to->cause), cause);
        to->count = count;
        to->first.ns = mrd_json_int(d, "first_local_ns", 0);
        to->last.ns = mrd_json_int(d, "last_local_ns", 0);
        gaps_load(&counts->gaps, d, (uint8_t) counts->n_losses++);
    }
}
