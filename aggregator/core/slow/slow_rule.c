/*
 * Compares the ranks that repeat the same leading operation, over a window of the last slots.
 *
 * The window has BLOCKS blocks. A block has `scale` slots: 1, 4 or 16. Long windows find small
 * delays of jobs whose steps vary much. The residual of a rank in a slot is its value minus the
 * median of all ranks. Medians over slots, blocks and ranks keep a pause or a stall from looking
 * like a slow rank.
 */
#include "aggregator/core/slow/slow_int.h"

#include <string.h>

#include "base/vec.h"

#define BLOCKS 8
/* A rank is slow only if this number of the newest blocks is slow. A delay in 5 of 8 blocks has
 * moved the median. */
#define BLOCKS_SLOW 5
/* At the normal distribution this makes a median absolute deviation a standard deviation. */
#define DEVIATION 1.4826F
#define LEAST     0.01F /* a shorter part of a step is not worth a verdict */
#define OWN       3.0F  /* smallest ratio of the excess to the spread of the rank's blocks */
/* Ranks wait for each other in each step only if their steps differ by less than this part. */
#define SAME_PACE 0.05
/* The part of the excess by which the peers must wait longer than the slow rank. */
#define AWAITED 0.5F
/* The spread of the ranks' steps is at most this part of the excess, or they do not wait. */
#define LOCKED 0.1F
/* The part of the excess that the wait for a CPU must explain. */
#define EXPLAINED  0.8F
#define LATE       (1200 * MRD_MS) /* reports of a slot arrive until this time after its end */
#define SILENT     (5 * MRD_SEC)   /* the ranks of a node are not judged after this time */
#define REMEMBERED 60 /* number of judgements over which the spread between ranks is averaged */
/* A slot's median uses a sample of this number of ranks. Its error is far below the spread between
 * the ranks. */
#define SAMPLED      1024
#define OLDEST_END   16 /* largest age of a window's end in slots; steps of 30 s need it */
#define NOT_COMPUTED (-2.0F)
#define UNKNOWN      (-1e30F)

/* What is compared besides the parts. */
enum { WAIT = MRD_SLOW_PARTS, COLLECTIVES, CPU_WAIT, STEP, OWN_WORK };

static float
value_of(const slow_slot *slot, unsigned channel)
{
    float device = slot->part[MRD_SLOW_DEVICE];

    switch (channel) {
    case WAIT:
        return slot->part[MRD_SLOW_EXECUTION] + slot->collective;
    case COLLECTIVES:
        return slot->collective;
    case CPU_WAIT:
        return slot->cpu_wait;
    case STEP:
        return slot->step;
    case OWN_WORK:
        return slot->part[MRD_SLOW_HOST] + slot->part[MRD_SLOW_RUNTIME] + (device < 0 ? 0 : device);
    default:
        return slot->part[channel];
    }
}

/* ---- The window ---- */

bool
mrd_slow_is_comparable(const mrd_slow *slow, const slow_process *process, mrd_local_ns now)
{
    const slow_node *node = &slow->nodes[process->node];

    return process->series != NULL && !process->lost && process->reported && node->gone.ns == 0 &&
           mrd_local_diff(now, node->seen) <= SILENT && process->state != MRD_HANG_STOPPED &&
           process->state != MRD_HANG_ZOMBIE && process->state != MRD_HANG_GONE;
}

bool
mrd_slow_has_same_lead(const slow_process *a, const slow_process *b)
{
    const mrd_slow_reading *x = &a->series->last, *y = &b->series->last;

    return x->ops[x->lead].group == y->ops[y->lead].group &&
           strcmp(x->ops[x->lead].name, y->ops[y->lead].name) == 0;
}

/* Collects the ranks with the same leading operation as `like`. */
static bool
collect(mrd_slow *slow, const slow_job *job, const slow_process *like, mrd_local_ns now,
        slow_window *window)
{
    if (!MRD_VEC_ROOM(slow->peers, 0, slow->cap_peers, job->n) ||
        !MRD_VEC_ROOM(slow->scratch, 0, slow->cap_scratch, 4 * job->n))
        return false;
    window->peers = slow->peers;
    for (size_t i = 0; i < job->n; i++)
        if (mrd_slow_is_comparable(slow, job->members[i], now) &&
            mrd_slow_has_same_lead(job->members[i], like))
            window->peers[window->n++] = job->members[i];
    return window->n >= 3;
}

/* Finds the newest slot for which three of four ranks have values. */
static bool
find_end(slow_window *window, mrd_local_ns now)
{
    int64_t newest = (now.ns - LATE) / MRD_SLOW_SLOT - 1;

    for (int64_t slot = newest; slot > newest - OLDEST_END && slot > 0; slot--) {
        size_t n = 0;

        for (size_t i = 0; i < window->n; i++)
            n += mrd_slow_slot_of(window->peers[i], slot) != NULL;
        if (4 * n >= 3 * window->n) {
            window->to = slot;
            return true;
        }
    }
    return false;
}

/* Returns the number of slots of the window. Short blocks are slots with a reading, so the window has
 * room for slots without one. */
static int64_t
length_of(const slow_window *window)
{
    return window->scale == 1 ? BLOCKS + BLOCKS / 2 : BLOCKS * (int64_t) window->scale;
}

/* Returns the mean step of the process in the window; 0 if it has too few readings. */
static float
mean_step(const slow_window *window, const slow_process *process)
{
    double time = 0, steps = 0;
    unsigned fresh = 0;

    for (int64_t at = window->to - length_of(window) + 1; at <= window->to; at++) {
        const slow_slot *slot = mrd_slow_slot_of(process, at);

        if (slot == NULL || !slot->fresh)
            continue;
        fresh++;
        steps += slot->steps;
        time += (double) slot->step * slot->steps;
    }
    return fresh >= BLOCKS && steps > 0 ? (float) (time / steps) : 0;
}

/* Keeps the ranks that have the usual step of the group. Returns false if they are too few. */
static bool
keep_same_pace(mrd_slow *slow, slow_window *window)
{
    float *steps = slow->scratch, *known = steps + window->n;
    size_t all = window->all = window->n, n = 0;

    for (size_t i = 0; i < all; i++)
        if ((steps[i] = mean_step(window, window->peers[i])) > 0)
            known[n++] = steps[i];
    /* a few ranks, such as those of one node, are not typical of the job */
    if (n < 3 || 4 * n < 3 * all)
        return false;
    window->step = mrd_slow_median(known, n);
    for (size_t i = 0; i < n; i++)
        known[i] = known[i] < window->step ? window->step - known[i] : known[i] - window->step;
    window->step_spread = DEVIATION * mrd_slow_median(known, n);
    window->n = 0;
    for (size_t i = 0; i < all; i++)
        if (steps[i] > window->step * (1 - SAME_PACE) && steps[i] < window->step * (1 + SAME_PACE))
            window->peers[window->n++] = window->peers[i];
    return window->n >= 3 && 2 * window->n >= all;
}

bool
mrd_slow_window_open(mrd_slow *slow, slow_job *job, const slow_process *like, mrd_local_ns now,
                     unsigned scale, slow_window *window)
{
    window->n = 0;
    window->scale = scale;
    window->judged = job->judged;
    window->between = job->between[scale == 1 ? 0 : scale < SLOW_SCALE_MAX ? 1 : 2];
    if (!collect(slow, job, like, now, window) || !find_end(window, now) ||
        !keep_same_pace(slow, window))
        return false;
    for (size_t i = 0; i < SLOW_CHANNELS; i++)
        for (size_t k = 0; k < MRD_SLOW_SLOTS; k++)
            window->medians[i][k] = NOT_COMPUTED;
    return true;
}

/* Returns the median of the ranks in a slot; negative if less than half of them have a value. */
static float
median_at(mrd_slow *slow, slow_window *window, unsigned channel, int64_t at)
{
    float *median = &window->medians[channel][at % MRD_SLOW_SLOTS];
    float *values = slow->scratch + 3 * window->n;
    size_t n = 0, looked = 0, stride = window->n / SAMPLED + 1;

    if (*median > NOT_COMPUTED)
        return *median;
    for (size_t i = 0; i < window->n; i += stride, looked++) {
        const slow_slot *slot = mrd_slow_slot_of(window->peers[i], at);

        if (slot != NULL && value_of(slot, channel) >= 0)
            values[n++] = value_of(slot, channel);
    }
    *median = n >= 3 && 2 * n >= looked ? mrd_slow_median(values, n) : -1;
    return *median;
}

/* Stores the residual of the process in a slot. Only slots with a reading count: a long pause
 * covers many slots, but is one observation. */
static bool
residual_at(mrd_slow *slow, slow_window *window, const slow_process *process, unsigned channel,
            int64_t at, float *ret_residual)
{
    const slow_slot *slot = mrd_slow_slot_of(process, at);
    float median;

    if (slot == NULL || !slot->fresh || value_of(slot, channel) < 0 ||
        (median = median_at(slow, window, channel, at)) < 0)
        return false;
    *ret_residual = value_of(slot, channel) - median;
    return true;
}

/* Stores the residuals of the newest BLOCKS slots with a reading. Agents send a reading every 2 s or
 * a little later, so some slots have none. */
static bool
newest_residuals(mrd_slow *slow, slow_window *window, const slow_process *process, unsigned channel,
                 float ret_blocks[BLOCKS])
{
    size_t n = 0;

    for (int64_t at = window->to; n < BLOCKS && at > window->to - length_of(window); at--)
        n += residual_at(slow, window, process, channel, at, &ret_blocks[BLOCKS - 1 - n]);
    return n == BLOCKS;
}

/* Stores the median residual of each block. Returns false if a block has no reading. */
static bool
block_residuals(mrd_slow *slow, slow_window *window, const slow_process *process, unsigned channel,
                float ret_blocks[BLOCKS])
{
    int64_t at = window->to - length_of(window) + 1;

    if (window->scale == 1)
        return newest_residuals(slow, window, process, channel, ret_blocks);
    for (size_t i = 0; i < BLOCKS; i++) {
        float residuals[SLOW_SCALE_MAX];
        size_t n = 0;

        for (unsigned k = 0; k < window->scale; k++, at++)
            n += residual_at(slow, window, process, channel, at, &residuals[n]);
        if (n == 0)
            return false;
        ret_blocks[i] = mrd_slow_median(residuals, n);
    }
    return true;
}

static float
median_residual(mrd_slow *slow, slow_window *window, const slow_process *process, unsigned channel,
                float otherwise)
{
    float blocks[BLOCKS];

    return block_residuals(slow, window, process, channel, blocks) ? mrd_slow_median(blocks, BLOCKS)
                                                                   : otherwise;
}

/* ---- The comparison ---- */

static float
spread_of(const float *values, size_t n, float middle, float *scratch)
{
    for (size_t i = 0; i < n; i++)
        scratch[i] = values[i] < middle ? middle - values[i] : values[i] - middle;
    return DEVIATION * mrd_slow_median(scratch, n);
}

/* Statistics of the blocks of one rank and one part. */
typedef struct {
    float excess, spread, lowest; /* `lowest`: the least residual of the newest blocks */
} sample;

static bool
sample_of(mrd_slow *slow, slow_window *window, const slow_process *process, unsigned part,
          sample *ret_sample)
{
    float blocks[BLOCKS], sorted[BLOCKS];

    if (!block_residuals(slow, window, process, part, blocks))
        return false;
    memcpy(sorted, blocks, sizeof(sorted));
    ret_sample->excess = mrd_slow_median(sorted, BLOCKS);
    ret_sample->spread = spread_of(blocks, BLOCKS, ret_sample->excess, sorted);
    ret_sample->lowest = blocks[BLOCKS - 1];
    for (size_t i = BLOCKS - BLOCKS_SLOW; i < BLOCKS; i++)
        if (blocks[i] < ret_sample->lowest)
            ret_sample->lowest = blocks[i];
    return true;
}

/* Returns the smallest ratio of the excess to the spread between n ranks. The largest of many ranks
 * is further from the median by chance, so the ratio grows with n. */
static float
between_factor(size_t n)
{
    return n <= 64 ? 6 : n <= 1024 ? 7 : 8;
}

/* Statistics of all ranks for one part. */
typedef struct {
    size_t n;
    float between, spread; /* spread between the ranks, and the usual spread of one rank */
    float between_now;     /* `between` of this window alone */
} common_sample;

/* Computes what the part of all ranks has in common. Stores the excess of each rank, or UNKNOWN, at
 * the begin of slow->scratch. Returns false if too few ranks have the part. */
static bool
compare(mrd_slow *slow, slow_window *window, unsigned part, common_sample *ret_common)
{
    float *excess = slow->scratch, *spread = excess + window->n, *work = spread + window->n;
    float middle;
    size_t n = 0;
    sample one;

    for (size_t i = 0; i < window->n; i++) {
        bool known = sample_of(slow, window, window->peers[i], part, &one);

        excess[i] = known ? one.excess : UNKNOWN;
        if (!known)
            continue;
        work[n] = one.excess;
        spread[n++] = one.spread;
    }
    if (n < 3 || 2 * n < window->n)
        return false;
    middle = mrd_slow_median(work, n);
    for (size_t i = 0; i < n; i++)
        work[i] = work[i] < middle ? middle - work[i] : work[i] - middle;
    ret_common->n = n;
    ret_common->between_now = DEVIATION * mrd_slow_median(work, n);
    ret_common->between = ret_common->between_now;
    ret_common->spread = mrd_slow_median(spread, n);
    /* The spread of few ranks is sometimes small by chance, if their noise changes slowly. Therefore the spread is multiplied until it was measured REMEMBERED times. */
    if (window->between[part] > ret_common->between)
        ret_common->between = window->between[part];
    if (window->judged < REMEMBERED)
        ret_common->between *= 1.5F;
    return true;
}

static float
threshold_of(const slow_window *window, const common_sample *common, const sample *one)
{
    float own = OWN * (one->spread > common->spread ? one->spread : common->spread);
    float between = between_factor(common->n) * common->between, least = LEAST * window->step;

    return own > between ? (own > least ? own : least) : (between > least ? between : least);
}

/* Returns true if the other ranks wait for this rank because of its excess. */
static bool
is_awaited(mrd_slow *slow, slow_window *window, const slow_process *process, unsigned part,
           float excess)
{
    float step = mean_step(window, process) - window->step;
    unsigned channel = part == MRD_SLOW_EXECUTION ? COLLECTIVES : WAIT;

    /* ranks that do not wait for one another have steps of different lengths */
    if (window->step_spread > LOCKED * excess || step > AWAITED * excess ||
        step < -AWAITED * excess)
        return false;
    /* time that only moved from one part to another part delays no rank */
    if (part != MRD_SLOW_EXECUTION &&
        median_residual(slow, window, process, OWN_WORK, 0) < AWAITED * excess)
        return false;
    /* waits inside an execution cannot be seen, if the part is the device's own work */
    return part == MRD_SLOW_DEVICE ||
           -median_residual(slow, window, process, channel, 0) >= AWAITED * excess;
}

bool
mrd_slow_check(mrd_slow *slow, slow_window *window, const slow_process *process, mrd_slow_part part,
               slow_finding *ret_finding)
{
    common_sample common;
    sample one;

    if (!compare(slow, window, part, &common) || !sample_of(slow, window, process, part, &one))
        return false;
    ret_finding->excess = one.excess;
    ret_finding->threshold = threshold_of(window, &common, &one);
    ret_finding->spread = one.spread > common.spread ? one.spread : common.spread;
    ret_finding->peers = median_at(slow, window, part, window->to);
    ret_finding->step = window->step;
    return true;
}

static mrd_slow_class
class_of(mrd_slow *slow, slow_window *window, const slow_finding *finding)
{
    switch (finding->part) {
    case MRD_SLOW_HOST:
        return median_residual(slow, window, finding->process, CPU_WAIT, 0) >=
                       EXPLAINED * finding->excess
                   ? MRD_SLOW_STARVED
                   : MRD_SLOW_IS_HOST;
    case MRD_SLOW_DEVICE:
        return MRD_SLOW_IS_DEVICE;
    case MRD_SLOW_RUNTIME:
        return MRD_SLOW_IS_RUNTIME;
    default:
        return MRD_SLOW_IS_EXECUTION;
    }
}

/* Adds the spread between the ranks to the mean over the last judgements. */
static void
remember(slow_window *window, unsigned part, float between)
{
    float *mean = &window->between[part];

    *mean += (between - *mean) / (*mean > 0 ? REMEMBERED : 1);
}

/* Returns true if more than a quarter of the ranks is slow. If several ranks are slow, ranks without
 * enough readings may be slow too. */
static bool
is_slow_job(const slow_window *window, const common_sample *common, size_t n_slow)
{
    size_t unknown = window->all - common->n;

    return n_slow > (common->n < 4 ? 1 : common->n / 4) ||
           (n_slow >= 3 && n_slow + unknown > window->all / 4);
}

/* Adds the ranks that are slow in this part to slow->findings. Adds none if more than a quarter of
 * the ranks is slow, because then the job itself is slow. */
static void
find_in_part(mrd_slow *slow, slow_window *window, mrd_slow_part part)
{
    size_t before = slow->n_findings, n_slow = 0;
    common_sample common;

    if (!compare(slow, window, part, &common))
        return;
    remember(window, part, common.between_now);
    for (size_t i = 0; i < window->n; i++) {
        slow_finding finding = { .process = window->peers[i], .part = part };
        sample one;

        /* most ranks have no excess, so that their blocks need not be read again */
        if (slow->scratch[i] < LEAST * window->step)
            continue;
        /* the noise of a rank matters for its verdict, but not for whether the job is slow */
        n_slow += slow->scratch[i] >= between_factor(common.n) / 2 * common.between;
        if (!sample_of(slow, window, finding.process, part, &one))
            continue;
        finding.threshold = threshold_of(window, &common, &one);
        if (one.excess < finding.threshold || one.lowest < finding.threshold / 2)
            continue;
        finding.excess = one.excess;
        finding.spread = one.spread > common.spread ? one.spread : common.spread;
        finding.step = window->step;
        finding.scale = window->scale;
        finding.peers = median_at(slow, window, part, window->to);
        if (!is_awaited(slow, window, finding.process, part, one.excess) ||
            !MRD_VEC_ROOM(slow->findings, slow->n_findings, slow->cap_findings, 1))
            continue;
        finding.cls = class_of(slow, window, &finding);
        slow->findings[slow->n_findings++] = finding;
    }
    if (is_slow_job(window, &common, n_slow))
        slow->n_findings = before;
}

void
mrd_slow_find(mrd_slow *slow, slow_window *window, bool has_device)
{
    if (window->step > 30e9F)
        return;
    find_in_part(slow, window, MRD_SLOW_HOST);
    find_in_part(slow, window, MRD_SLOW_RUNTIME);
    find_in_part(slow, window, has_device ? MRD_SLOW_DEVICE : MRD_SLOW_EXECUTION);
}

/* ---- Since when, and how much ---- */

/* Returns which part of the excess the slot has, from 0 to `most`. */
static float
share_at(mrd_slow *slow, slow_window *window, const slow_finding *finding, int64_t at, float most)
{
    float residual;

    if (!residual_at(slow, window, finding->process, finding->part, at, &residual) || residual < 0)
        return 0;
    return residual < most * finding->excess ? residual / finding->excess : most;
}

static bool
has_reading(const slow_series *series, int64_t slot)
{
    const slow_slot *values = &series->slots[slot % MRD_SLOW_SLOTS];

    return values->steps > 0 && values->fresh;
}

/* Returns the newest slot with a reading before `slot`, or `slot` if there is none. */
static int64_t
reading_before(const slow_series *series, int64_t slot)
{
    for (int64_t at = slot - 1; at >= series->oldest_slot; at--)
        if (has_reading(series, at))
            return at;
    return slot;
}

static int64_t
first_reading(const slow_series *series)
{
    int64_t slot = series->oldest_slot;

    while (slot < series->newest_slot && !has_reading(series, slot))
        slot++;
    return slot;
}

static mrd_local_ns
time_of(const slow_series *series, int64_t slot)
{
    return (mrd_local_ns){ slot * MRD_SLOW_SLOT + series->slots[slot % MRD_SLOW_SLOTS].end };
}

/* Each slot adds its residual minus half of the excess. The sum over the newest slots is largest if
 * it begins at the change. */
mrd_local_ns
mrd_slow_onset(mrd_slow *slow, slow_window *window, const slow_finding *finding, bool *ret_first)
{
    const slow_series *series = finding->process->series;
    float excess = finding->excess, residual, sum = 0, best = 0, span;
    int64_t onset = window->to, before;
    mrd_local_ns at;

    for (int64_t slot = window->to; slot >= series->oldest_slot; slot--) {
        if (!residual_at(slow, window, finding->process, finding->part, slot, &residual))
            continue;
        /* one pause must not outweigh many healthy slots */
        residual = residual > 1.5F * excess ? 1.5F * excess : residual;
        residual = residual < -0.5F * excess ? -0.5F * excess : residual;
        sum += residual - excess / 2;
        if (sum > best) {
            best = sum;
            onset = slot;
        }
    }
    *ret_first = onset <= first_reading(series) + 1;
    if (*ret_first)
        return time_of(series, first_reading(series));
    /* the delay begins between the readings of this slot and of the slot before it, or earlier */
    before = reading_before(series, onset);
    at = time_of(series, onset);
    span = (float) mrd_local_diff(at, time_of(series, before));
    at = mrd_local_sub(at, (mrd_dur_ns) (span * share_at(slow, window, finding, onset, 1)));
    span = (float) mrd_local_diff(time_of(series, before),
                                  time_of(series, reading_before(series, before)));
    return mrd_local_sub(at, (mrd_dur_ns) (span * share_at(slow, window, finding, before, 0.5F)));
}

float
mrd_slow_loss(mrd_slow *slow, slow_window *window, const slow_finding *finding)
{
    float own = median_residual(slow, window, finding->process, OWN_WORK, finding->excess);
    float second = 0;

    if (finding->part == MRD_SLOW_EXECUTION)
        return finding->excess;
    for (size_t i = 0; i < window->n; i++) {
        bool found = false;
        float other;

        for (size_t k = 0; k < slow->n_findings && !found; k++)
            found = slow->findings[k].process == window->peers[i];
        if (found || window->peers[i] == finding->process)
            continue;
        other = median_residual(slow, window, window->peers[i], OWN_WORK, 0);
        second = other > second ? other : second;
    }
    own = own < finding->excess ? own : finding->excess;
    return own > second ? own - second : 0;
}
