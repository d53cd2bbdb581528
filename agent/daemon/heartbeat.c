/* agent/daemon/heartbeat.c - makes the message that an agent sends every second: the state of the
 * agent, its clock, and its part in each session. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/daemon/agent_int.h"
#include "base/conf/agent_waits.h"
#include "base/conf/log.h"
#include "base/metrics.h"

/* ---- Parts of the message ---- */

typedef struct {
    Mrd__Drop drops[MRD_DROP_CAUSES], *list[MRD_DROP_CAUSES];
    char texts[MRD_DROP_CAUSES][32];
    Mrd__Gap gaps[MRD_GAPS_MAX], *gap_list[MRD_GAPS_MAX];
    size_t n_gaps;
    Mrd__Counters counters;
} counter_set;

/* Fills in the time ranges in which events were lost for one cause. The list in `set` has room for
 * all of them. */
static void
gap_list(counter_set *set, const mrd_gaps *gaps, int cause, Mrd__Drop *to)
{
    size_t first = set->n_gaps;

    for (size_t i = 0; i < gaps->n; i++) {
        const mrd_gap *gap = &gaps->v[i];
        Mrd__Gap *m = &set->gaps[set->n_gaps];

        if (gap->cause != cause)
            continue;
        mrd__gap__init(m);
        m->first_ns = gap->first.ns;
        m->last_ns = gap->last.ns;
        m->count = gap->count;
        m->marked = gap->marked;
        set->gap_list[set->n_gaps++] = m;
    }
    to->gaps = set->gap_list + first;
    to->n_gaps = set->n_gaps - first;
    to->gaps_merged = gaps->merged;
}

/* Returns the name of a cause of loss. For MRD_DROP_LATE only the number of events per process and
 * time is known. If the session selects only some event types or cores, this number is an upper
 * limit, and `late_at_most` is true. */
static const char *
cause_text(int cause, bool late_at_most)
{
    return cause == MRD_DROP_LATE && late_at_most ? mrd_drop_text(MRD_DROP_LATE_AT_MOST)
                                                  : mrd_drop_text((mrd_drop_cause) cause);
}

/* Fills in the numbers of lost events, one entry for each cause. Returns the number of causes.
 * `gaps` has the time ranges of the losses; NULL if these are unknown. */
static size_t
drop_list(counter_set *set, const mrd_record_drop *drops, const mrd_gaps *gaps, bool late_at_most)
{
    Mrd__Drop *messages = set->drops, **list = set->list;
    char(*texts)[32] = set->texts;
    size_t count = 0;

    for (int i = 0; i < MRD_DROP_CAUSES; i++) {
        if (drops[i].count == 0)
            continue;
        mrd__drop__init(&messages[count]);
        snprintf(texts[count], 32, "%s", cause_text(i, late_at_most));
        messages[count].cause = texts[count];
        messages[count].count = drops[i].count;
        messages[count].first_ns = drops[i].first.ns;
        messages[count].last_ns = drops[i].last.ns;
        if (gaps != NULL)
            gap_list(set, gaps, i, &messages[count]);
        list[count] = &messages[count];
        count++;
    }
    return count;
}

static void
fill_counters(counter_set *set, uint64_t begun, uint64_t delivered, uint64_t held,
              const mrd_record_drop *drops, const mrd_gaps *gaps, bool late_at_most)
{
    set->n_gaps = 0;
    mrd__counters__init(&set->counters);
    set->counters.begun = begun;
    set->counters.delivered = delivered;
    set->counters.held = held;
    set->counters.n_drops = drop_list(set, drops, gaps, late_at_most);
    set->counters.drops = set->list;
}

static const char *
state_word(const mrd_agent *agent, const mrd_publish_stats *stats, const mrd_spool_stats *spool)
{
    if (!stats->welcome)
        return "connecting";
    if (mrd_drain_stands_back(agent->drain))
        return "standing-back";
    if (mrd_drain_leaves_out(agent->drain))
        return "rings-left-out";
    if (agent->spool_failed.ns != 0)
        return "spool-failing";
    if (stats->slow)
        return "throttled";
    if (spool->bytes > 16u << 20)
        return "spooling";
    return agent->capped_ns > 0 ? "cpu-capped" : "ok";
}

/* Memory for the part of the message about the device profiles of one session. */
typedef struct {
    Mrd__DeviceProfile v[MRD_DEVPROF_RESULTS], *list[MRD_DEVPROF_RESULTS];
    char states[MRD_DEVPROF_RESULTS][16], messages[MRD_DEVPROF_RESULTS][160];
    size_t n;
} profile_set;

static void
fill_profiles(profile_set *set, const mrd_devprof *prof, uint64_t session, Mrd__SessionStatus *st)
{
    mrd_devprof_result result;

    for (size_t i = 0; set->n < MRD_DEVPROF_RESULTS && mrd_devprof_get(prof, session, i, &result);
         i++) {
        Mrd__DeviceProfile *profile = &set->v[set->n];

        mrd__device_profile__init(profile);
        snprintf(set->states[set->n], sizeof(set->states[0]), "%s", result.state);
        snprintf(set->messages[set->n], sizeof(set->messages[0]), "%s", result.message);
        profile->process_id = result.pid;
        profile->nc_idx = result.core < 0 ? -1 : result.core;
        profile->state = set->states[set->n];
        profile->count = result.count;
        profile->message = set->messages[set->n];
        set->list[set->n++] = profile;
    }
    st->device_profiles = set->list;
    st->n_device_profiles = set->n;
}

/* Memory for the part of the message about loaded models, of one session or of the node. */
typedef struct {
    const mrd_model_load *from[MRD_MODELS_SENT];
    Mrd__ModelLoad v[MRD_MODELS_SENT], *list[MRD_MODELS_SENT];
    Mrd__ModelList message;
} model_set;

/* Fills in the list of loaded models. Their texts are borrowed from the table, which does not
 * change while the message is made. */
static Mrd__ModelList *
fill_models(model_set *set, const mrd_model_table *models, uint64_t session)
{
    Mrd__ModelList *list = &set->message;

    mrd__model_list__init(list);
    list->n_loads =
        mrd_model_table_get(models, session, set->from, MRD_MODELS_SENT, &list->left_out);
    list->loads = set->list;
    for (size_t i = 0; i < list->n_loads; i++) {
        const mrd_model_load *from = set->from[i];
        Mrd__ModelLoad *to = set->list[i] = &set->v[i];

        mrd__model_load__init(to);
        to->process_id = from->pid;
        to->model_id = from->model_id;
        to->runtime_id = from->runtime_id == MRD_NONE ? -1 : from->runtime_id;
        to->name = (char *) (uintptr_t) from->name;
        to->sha256 = (char *) (uintptr_t) from->sha256;
        to->path = (char *) (uintptr_t) from->path;
        to->size = from->size;
        to->kept = from->kept[0] != '\0';
        to->lnc_idx = from->core;
        to->lnc_count = from->cores;
        to->loaded_local_ns = from->load.ns;
        to->unloaded_local_ns = from->unload.ns;
    }
    return list;
}

/* Returns a hash of everything that determines the lists of models. When the hash changes, the
 * lists are sent again until the aggregator has acknowledged them. */
static uint64_t
models_signature(const mrd_agent *agent)
{
    uint64_t h = mrd_model_table_version(agent->models) * 0x9e3779b97f4a7c15u;
    mrd_record_status status;

    for (size_t i = 0; i < mrd_record_sessions(agent->record); i++) {
        mrd_record_get(agent->record, i, &status);
        h = (h ^ status.id ^ (uint64_t) status.start.ns ^ (uint64_t) status.stop.ns << 1) *
            0x9e3779b97f4a7c15u;
    }
    return h | 1; /* never 0, because 0 means that nothing was sent */
}

/* Memory for the part of the message about ranks. The texts are borrowed from the hang collector,
 * which does not run while the message is made. */
typedef struct {
    Mrd__RankList message;
    Mrd__RankState v[MRD_RANKS_MAX], *list[MRD_RANKS_MAX];
    Mrd__RankOp ops[MRD_RANKS_MAX][MRD_DRAIN_OPS], *op_lists[MRD_RANKS_MAX][MRD_DRAIN_OPS];
    char letters[MRD_RANKS_MAX][2];
} rank_set;

static void
fill_ops(rank_set *set, size_t i, const mrd_rank_state *state)
{
    set->v[i].ops = set->op_lists[i];
    set->v[i].n_ops = state->n_ops;
    for (size_t k = 0; k < state->n_ops; k++) {
        Mrd__RankOp *op = set->op_lists[i][k] = &set->ops[i][k];

        mrd__rank_op__init(op);
        op->name = (char *) (uintptr_t) state->ops[k].name;
        op->group = state->ops[k].group;
        op->entered = state->ops[k].entered;
        op->open = state->ops[k].open;
        op->begin_local_ns = state->ops[k].open > 0 ? state->ops[k].begin.ns : 0;
        op->bytes = state->ops[k].bytes;
        op->bytes_before = state->ops[k].bytes_before;
        op->seen = state->ops[k].seen;
        op->slow_ns = state->ops[k].slow_ns;
    }
}

/* Fills in the pace of a process. If its leading operation is no longer in the list, the process has
 * no pace. */
static void
fill_pace(rank_set *set, size_t i, const mrd_rank_state *state)
{
    Mrd__RankState *to = &set->v[i];
    const mrd_rank_pace *pace = state->pace;

    for (size_t k = 0; pace != NULL && k < state->n_ops; k++) {
        size_t at = 0;

        while (at < pace->n_ops && (pace->ops[at].group != state->ops[k].group ||
                                    strcmp(pace->ops[at].name, state->ops[k].name) != 0))
            at++;
        if (at == pace->n_ops)
            continue;
        set->ops[i][k].pace_entered = pace->ops[at].entered;
        set->ops[i][k].pace_inside_ns = pace->ops[at].inside;
        if (at != pace->lead)
            continue;
        to->pace_local_ns = pace->at.ns;
        to->pace_lead = (uint32_t) k;
        to->pace_outside_ns = pace->outside;
        to->pace_on_cpu_ns = state->thread.on_cpu;
        to->pace_cpu_wait_ns = state->thread.cpu_wait;
        to->pace_device_ns = state->device;
        to->pace_executions = state->executions;
    }
}

static Mrd__RankList *
fill_ranks(rank_set *set, const mrd_ranks *ranks)
{
    mrd_rank_state state;
    size_t count = 0;

    mrd__rank_list__init(&set->message);
    for (; count < MRD_RANKS_MAX && mrd_ranks_get(ranks, count, &state); count++) {
        Mrd__RankState *rank_state = set->list[count] = &set->v[count];

        mrd__rank_state__init(rank_state);
        rank_state->process_id = state.ident->pid;
        rank_state->start_ticks = state.ident->start_ticks;
        rank_state->rank = state.ident->rank == MRD_NONE ? -1 : state.ident->rank;
        rank_state->world = state.ident->world_size == MRD_NONE ? -1 : state.ident->world_size;
        rank_state->identity = (char *) (uintptr_t) state.ident->jobid.text;
        rank_state->uid = mrd_jobs_uid(state.ident);
        rank_state->confirmed = state.ident->pod_confirmed;
        set->letters[count][0] = state.state;
        rank_state->state = set->letters[count];
        rank_state->quiet_local_ns = state.quiet.ns;
        rank_state->idle_local_ns = state.idle.ns;
        rank_state->state_local_ns = state.state_at.ns;
        rank_state->watched_local_ns = state.watched.ns;
        rank_state->lost = (char *) (uintptr_t) state.lost;
        rank_state->partial = state.partial;
        rank_state->failed = state.failed;
        rank_state->inside = (char *) (uintptr_t) state.inside;
        rank_state->traced = state.traced;
        rank_state->running = (char *) (uintptr_t) state.running;
        fill_ops(set, count, &state);
        fill_pace(set, count, &state);
    }
    set->message.ranks = set->list;
    set->message.n_ranks = count;
    set->message.left_out = mrd_ranks_left_out(ranks);
    return &set->message;
}

/* maximum total size of the jobs in a heartbeat; leaves room for the rest of the message */
#define JOBS_BYTES (48u << 10)

static void
fill_jobs(const mrd_record_status *status, size_t room, Mrd__SessionStatus *to)
{
    size_t n = 0;

    for (size_t used = 0; n < status->jobs->n; n++) {
        used += strlen(status->jobs->v[n]) + 4;
        if (used > room)
            break;
    }
    to->jobs = status->jobs->v;
    to->n_jobs = n;
    to->jobs_left_out = (uint32_t) (status->jobs->n - n) + status->jobs_left_out;
}

/* ---- Limit on the size of the message ---- */

static size_t
shorten_models(Mrd__ModelList *list)
{
    size_t n = list == NULL ? 0 : list->n_loads - list->n_loads / 2;

    if (n == 0)
        return 0;
    list->n_loads -= n;
    list->left_out += n;
    return n;
}

/* Shortens the heartbeat. Each call halves the node's list of models. It also shortens the first of
 * these that is not empty: stacks (removed), ranks, the sessions' models, device profiles (all
 * halved). Returns false if nothing is left to remove. */
static bool
shorten(Mrd__Heartbeat *m)
{
    size_t models = shorten_models(m->models), profiles = 0;

    if (m->n_stacks > 0) {
        /* the next heartbeat, which has no list of ranks, sends the removed stacks */
        m->n_stacks = 0;
        return true;
    }
    if (m->ranks != NULL && m->ranks->n_ranks > 0) {
        m->ranks->left_out += (uint32_t) (m->ranks->n_ranks - m->ranks->n_ranks / 2);
        m->ranks->n_ranks /= 2;
        return true;
    }
    for (size_t i = 0; i < m->n_sessions; i++)
        models += shorten_models(m->sessions[i]->models);
    for (size_t i = 0; i < m->n_sessions && models == 0; i++) {
        profiles += m->sessions[i]->n_device_profiles;
        m->sessions[i]->n_device_profiles /= 2;
    }
    if (profiles > 0)
        mrd_log(MRD_LOG_WARN, "AGT-DEVPROF-MAX",
                "Not all processes and cores that answer about device profiles fit into a "
                "heartbeat: listed=%zu",
                profiles / 2);
    return models + profiles > 0;
}

/* Encodes the heartbeat, and shortens it until it fits into a frame. The aggregator would refuse a
 * longer frame, and would report a node without heartbeats as lost. */
static mrd_err
pack_heartbeat(mrd_frame *frame, Mrd__Heartbeat *m, mrd_buf *to)
{
    mrd_err err;

    do
        err = mrd_msg_pack(frame, m, to, NULL);
    while (err == MRD_LIMIT && shorten(m));
    return err;
}

/* ---- The message ---- */

/* All memory that one heartbeat message refers to. */
typedef struct {
    Mrd__SessionStatus status;
    Mrd__SessionTally tally;
    Mrd__CountersAtBoot base;
    counter_set counters, at_boot;
    profile_set profiles;
    model_set models;
    Mrd__Unread unread;
    char report[256], unselected_one[160], cut_file[256];
} session_part;

typedef struct {
    Mrd__Heartbeat m;
    counter_set counters;
    Mrd__Unread unread;
    Mrd__ClockQuality clock;
    mrd_clock_sync_view view;
    Mrd__RuntimeFeatures features;
    Mrd__Label labels[2], *notes[2];
    Mrd__SessionStatus refused[MRD_RECORD_SESSIONS], *sessions[2 * MRD_RECORD_SESSIONS];
    char state[32], trigger_at[24];
    model_set models;
    Mrd__Stack stacks[MRD_STACKS_SENT], *stack_list[MRD_STACKS_SENT];
    /* true if the lists of models changed, so that this message contains them */
    bool with_models;
    session_part parts[]; /* one entry for each session of the recorder */
} heartbeat;

static void
fill_node(heartbeat *h, const mrd_agent *agent)
{
    Mrd__Heartbeat *m = &h->m;
    mrd_record_drop drops[MRD_DROP_CAUSES] = { { 0 } };
    mrd_agent_counts counts;
    mrd_publish_stats stats;

    mrd_agent_counters(agent, &counts);
    mrd_publish_get_stats(agent->publish, &stats);
    snprintf(h->state, sizeof(h->state), "%s", state_word(agent, &stats, &counts.spool));
    m->state = h->state;
    m->local_ns = mrd_local_now().ns;
    m->asleep_ns = mrd_asleep_now();
    m->wall_ns = mrd_wall_now().ns;
    for (int i = 0; i < MRD_DROP_CAUSES; i++)
        drops[i].count = counts.dropped[i];
    fill_counters(&h->counters, counts.begun, counts.delivered, counts.held, drops, NULL, false);
    h->counters.counters.since = agent->run;
    h->counters.counters.clock_frames_lost = agent->clock_lost;
    h->counters.counters.batches = counts.frames_acked;
    h->counters.counters.bytes = counts.bytes_sent;
    m->counters = &h->counters.counters;
    m->spool_bytes = counts.spool.bytes;
    m->memory_bytes = mrd_resident_bytes();
    m->certificate_begin_ns = agent->cert.begin.ns;
    m->certificate_end_ns = agent->cert.end.ns;
    m->rings = (uint32_t) counts.drain.rings;
    m->processes = (uint32_t) counts.drain.processes;
    mrd_agent_unread(agent, &h->unread);
    m->unread = &h->unread;
}

static void
fill_clock(heartbeat *h, const mrd_agent *agent)
{
    mrd__clock_quality__init(&h->clock);
    mrd_agent_clock_quality(agent, &h->view, &h->clock);
    h->m.clock = &h->clock;
    h->m.answered_ns = h->view.answered.ns;
    h->m.answer_raw_ns = h->view.answer_raw.ns;
}

/* Fills in the features of runtimes. They are sent again after a change, until the aggregator has
 * acknowledged them. */
static void
fill_features(heartbeat *h, mrd_agent *agent)
{
    mrd_runtime_seen *seen = &agent->features;

    seen->sent = seen->signature == seen->reported ? 0 : seen->signature;
    if (seen->sent == 0)
        return;
    mrd__runtime_features__init(&h->features);
    h->features.version = seen->version;
    h->features.labels = seen->labels;
    h->features.event_types = seen->types.v;
    h->features.n_event_types = seen->types.n;
    h->features.unknown_functions = seen->unknown.v;
    h->features.n_unknown_functions = seen->unknown.n;
    h->m.runtime = &h->features;
}

/* Fills in the session's present counts of events, and the counts that it had when the node
 * booted. */
static void
fill_session_counters(session_part *part, const mrd_agent *agent, const mrd_record_status *status)
{
    mrd_record_status base;

    fill_counters(&part->counters, status->begun, status->delivered, status->held, status->drops,
                  &status->gaps, status->late_at_most);
    /* `since` identifies the series of counts. With a spool directory, the counts continue when the
     * agent restarts. Without it, they begin at 0 with each agent. */
    part->counters.counters.since =
        agent->o.spool_dir != NULL ? mrd_spool_since(agent->spool) : agent->run;
    part->counters.counters.clock_frames_lost = status->clock_lost;
    part->status.counters = &part->counters.counters;
    if (agent->o.spool_dir == NULL || !mrd_record_base(agent->record, status->id, &base))
        return;
    mrd__counters_at_boot__init(&part->base);
    part->base.begun = base.begun;
    part->base.delivered = base.delivered;
    part->base.held = base.held;
    part->base.n_drops = drop_list(&part->at_boot, base.drops, NULL, status->late_at_most);
    part->base.drops = part->at_boot.list;
    part->counters.counters.at_boot = &part->base;
}

static void
fill_tally(session_part *part, const mrd_record_status *status)
{
    mrd__session_tally__init(&part->tally);
    part->tally.chosen = status->chosen;
    part->tally.left_out = status->left_out;
    part->tally.processes = status->processes;
    part->tally.selected = status->selected;
    part->tally.in_flight = status->in_flight;
    part->tally.running = status->running;
    part->tally.unselected = status->unselected;
    snprintf(part->unselected_one, sizeof(part->unselected_one), "%s", status->unselected_one);
    part->tally.unselected_one = part->unselected_one;
    part->status.tally = &part->tally;
}

/* Fills in how many files of each kind on this node are not read. The number of ring files matters
 * to a session only while it records. The number of trace files also matters after the session has
 * stopped. */
static void
fill_unread(session_part *part, const Mrd__Unread *now, const mrd_record_status *status)
{
    mrd__unread__init(&part->unread);
    if (mrd_record_is_under_way(status->phase))
        part->unread = *now;
    part->unread.trace_files = status->cut_files;
    part->unread.trace_files_later = status->cut_files_later;
    snprintf(part->cut_file, sizeof(part->cut_file), "%s", status->cut_file);
    part->unread.trace_file = part->cut_file;
    part->status.unread = &part->unread;
}

static void
fill_session(heartbeat *h, const mrd_agent *agent, size_t i, size_t n_sessions)
{
    session_part *part = &h->parts[i];
    Mrd__SessionStatus *st = h->sessions[i] = &part->status;
    mrd_record_status status;

    mrd_record_get(agent->record, i, &status);
    mrd__session_status__init(st);
    st->session = status.id;
    st->phase = status.phase;
    /* If the node received the session only after its start time, it reports the time of receipt as
     * the start. */
    st->started_local_ns = status.start.ns == INT64_MAX                     ? 0
                           : mrd_local_after(status.reported, status.start) ? status.reported.ns
                                                                            : status.start.ns;
    st->stopped_local_ns = status.stop.ns == INT64_MAX ? 0 : status.stop.ns;
    if (status.phase == MRD__NODE_PHASE__NODE_FLUSHED)
        st->complete_local_ns = status.stop.ns;
    st->start_bound_ns = status.start_bound_ns;
    st->last_seq = status.last_seq;
    st->recorder_bytes = status.recorder_bytes;
    st->recorder_first_ns = status.recorder_first.ns;
    st->revision = status.revision;
    st->triggers = (uint64_t *) (uintptr_t) status.triggers;
    st->n_triggers = status.n_triggers;
    if (status.report[0] != '\0' && h->m.local_ns - status.report_at.ns < MRD_WAIT_REPORTED) {
        snprintf(part->report, sizeof(part->report), "%s", status.report);
        st->report = part->report;
        st->report_local_ns = status.report_at.ns;
    }
    fill_session_counters(part, agent, &status);
    fill_tally(part, &status);
    fill_profiles(&part->profiles, agent->devprof, status.id, st);
    fill_jobs(&status, JOBS_BYTES / n_sessions, st);
    if (h->with_models)
        st->models = fill_models(&part->models, agent->models, status.id);
    fill_unread(part, &h->unread, &status);
}

static void
fill_refusal(heartbeat *h, mrd_agent *agent, size_t i)
{
    Mrd__SessionStatus *st = &h->refused[i];

    mrd__session_status__init(st);
    st->session = agent->refusals[i].session;
    st->phase = MRD__NODE_PHASE__NODE_REFUSED;
    st->err = (uint32_t) agent->refusals[i].err;
    st->message = agent->refusals[i].message;
}

/* Adds the last trigger as labels, for aggregators of protocol 1.1. They apply it to all sessions
 * of the node. */
static void
fill_trigger(heartbeat *h, mrd_agent *agent)
{
    static char key[] = "trigger", at_key[] = "trigger-at";

    if (agent->trigger_reason[0] == '\0' ||
        h->m.local_ns - agent->trigger_at.ns >= MRD_WAIT_REPORTED)
        return;
    snprintf(h->trigger_at, sizeof(h->trigger_at), "%" PRId64, agent->trigger_at.ns);
    mrd_agent_label(&h->labels[0], key, agent->trigger_reason);
    mrd_agent_label(&h->labels[1], at_key, h->trigger_at);
    h->notes[0] = &h->labels[0];
    h->notes[1] = &h->labels[1];
    h->m.notes = h->notes;
    h->m.n_notes = 2;
}

static void
fill_stacks(heartbeat *h, const mrd_agent *agent)
{
    if (agent->stacks == NULL)
        return;
    h->m.n_stacks = mrd_stacks_get(agent->stacks, h->stacks);
    h->m.stacks = h->stack_list;
    for (size_t i = 0; i < h->m.n_stacks; i++)
        h->stack_list[i] = &h->stacks[i];
}

mrd_err
mrd_agent_heartbeat(void *self, mrd_buf *to)
{
    mrd_agent *agent = self;
    mrd_frame frame = { .type = MRD_FRAME_HEARTBEAT, .agent = agent->key };
    size_t count = mrd_record_sessions(agent->record);
    uint64_t models = models_signature(agent);
    heartbeat *h = calloc(1, sizeof(*h) + count * sizeof(h->parts[0]));
    rank_set *ranks = NULL;
    mrd_err err;

    if (h == NULL)
        return MRD_NOMEM;
    mrd__heartbeat__init(&h->m);
    h->with_models = models != agent->models_reported;
    agent->models_sent = h->with_models ? models : 0;
    if (h->with_models)
        h->m.models = fill_models(&h->models, agent->models, 0);
    fill_node(h, agent);
    fill_clock(h, agent);
    fill_features(h, agent);
    fill_trigger(h, agent);
    fill_stacks(h, agent);
    agent->ranks_sent = 0;
    if (agent->ranks != NULL &&
        (mrd_ranks_version(agent->ranks) != agent->ranks_reported ||
         mrd_ranks_paces(agent->ranks) != agent->paces_reported) &&
        (ranks = malloc(sizeof(*ranks))) != NULL) {
        agent->ranks_sent = mrd_ranks_version(agent->ranks);
        agent->paces_sent = mrd_ranks_paces(agent->ranks);
        agent->paces_at = mrd_local_now();
        h->m.ranks = fill_ranks(ranks, agent->ranks);
    }
    for (size_t i = 0; i < count; i++)
        fill_session(h, agent, i, count);
    for (size_t i = 0; i < agent->n_refusals; i++) {
        fill_refusal(h, agent, i);
        h->sessions[count + i] = &h->refused[i];
    }
    h->m.sessions = h->sessions;
    h->m.n_sessions = count + agent->n_refusals;
    err = pack_heartbeat(&frame, &h->m, to);
    free(ranks);
    free(h);
    return err;
}
