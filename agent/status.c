/* agent/status.c - what the agent says about itself: hello, heartbeats, counts, metrics. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/agent_int.h"
#include "base/file.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/obj.h"
#include "base/secret.h"
#include "base/version.h"

#define TOKEN_MAX 65536

mrd_err
mrd_agent_read_file(const char *path, char **ret_text, mrd_why *why)
{
    mrd_buf text = { 0 };
    mrd_err err = mrd_file_read(path, TOKEN_MAX, &text, why);

    while (text.len > 0 && (text.p[text.len - 1] == '\n' || text.p[text.len - 1] == '\r'))
        text.len--;
    if (err == MRD_OK && mrd_buf_room(&text, 1)) {
        (void) mrd_buf_cstr(&text);
        *ret_text = (char *) text.p;
        return MRD_OK;
    }
    mrd_buf_fini(&text);
    return err != MRD_OK ? err : mrd_why_set(why, MRD_NOMEM, 0, "%s", path);
}

/* ---- Counts ---- */

void
mrd_agent_counters(const mrd_agent *a, mrd_agent_counts *c)
{
    mrd_record_totals totals;
    mrd_collector_account collected;
    mrd_sample_stats sample;
    mrd_traces_stats traces;
    mrd_files_stats files;
    mrd_clock_sync_view view;

    memset(c, 0, sizeof(*c));
    mrd_drain_counts(a->drain, &c->pipe);
    mrd_spool_get_stats(a->spool, &c->spool);
    mrd_record_get_totals(a->record, &totals);
    mrd_collectors_account(a, &collected);
    mrd_sample_get_stats(a->sample, &sample);
    mrd_agent_counters_sum(a, &sample);
    mrd_files_get_stats(a->files, &files);
    mrd_traces_get_stats(a->traces, &traces);
    c->begun = a->recovered + c->spool.damaged_events + collected.begun + totals.copies;
    c->delivered = a->delivered;
    c->held = collected.held + totals.open + totals.buffered + c->spool.events;
    for (int i = 0; i < MRD_DROP_CAUSES; i++)
        c->dropped[i] = collected.dropped[i] + totals.lost[i];
    c->traces = traces.files;
    c->trace_events = traces.begun;
    c->traces_failed = traces.failed;
    c->dropped[MRD_DROP_UNSENT] += totals.unwanted;
    c->dropped[MRD_DROP_SPOOL] += a->dropped_spool;
    c->dropped[MRD_DROP_REFUSED] += a->dropped_refused;
    c->dropped[MRD_DROP_DAMAGED] += c->spool.damaged_events;
    c->samples = sample.samples;
    c->sample_errors = sample.failed;
    c->triggers_seen = a->triggers;
    c->artifacts = files.found;
    c->artifacts_sent = files.delivered;
    c->artifacts_failed = files.failed;
    c->files_beyond = files.beyond;
    c->files_refused = files.refused;
    c->files_ignored = files.ignored;
    c->artifact_bytes = files.bytes_sent;
    mrd_clock_sync_get(a->clock, &view);
    c->clock_bound_ns = view.bound_ns;
    if (a->publish != NULL) {
        mrd_publish_stats p;

        mrd_publish_get_stats(a->publish, &p);
        c->frames_sent = p.sent;
        c->frames_acked = p.acked;
        c->frames_refused = p.refused;
        c->frames_retried = p.retried;
        c->hellos = p.hellos;
        c->reconnects = p.reconnects;
        c->bytes_sent = p.bytes;
        c->connected = p.welcome;
    }
}

/* ---- Messages ---- */

static void
label(Mrd__Label *to, char *key, char *value)
{
    mrd__label__init(to);
    to->key = key;
    to->value = value;
}

mrd_err
mrd_agent_hello(void *self, mrd_buf *to)
{
    mrd_agent *a = self;
    mrd_frame f = { .type = MRD_FRAME_HELLO, .agent = a->key };
    Mrd__Hello m = MRD__HELLO__INIT;
    Mrd__Label labels[3], *list[3];
    uint32_t codecs[] = { MRD_CODEC_NONE, MRD_CODEC_LZ4, MRD_CODEC_ZSTD };
    char release[] = MRD_RELEASE, none[] = "", k1[] = "instance_type", k2[] = "job", k3[] = "zone";
    char commit[MRD_COMMIT_MAX];
    size_t n = 0;

    snprintf(commit, sizeof(commit), "%s", mrd_version_commit());
    m.wire_major = MRD_WIRE_MAJOR;
    m.wire_minor = MRD_WIRE_MINOR;
    m.release = release;
    m.commit = commit;
    m.instance_id = a->node.instance_id;
    m.boot_id = a->node.boot_id;
    m.run = a->run;
    m.epoch = mrd_spool_epoch(a->spool);
    m.host_name = a->node.host_name;
    m.codecs = codecs;
    m.n_codecs = MRD_COUNT(codecs);
    m.token = a->token == NULL ? none : a->token;
    m.local_ns = mrd_local_now().ns;
    m.wall_ns = mrd_wall_now().ns;
    m.simulated = a->o.simulated;
    if (a->node.imds.instance_type[0] != '\0')
        label(&labels[n++], k1, a->node.imds.instance_type);
    if (a->o.job != NULL)
        label(&labels[n++], k2, a->o.job);
    if (a->node.imds.zone[0] != '\0')
        label(&labels[n++], k3, a->node.imds.zone);
    for (size_t i = 0; i < n; i++)
        list[i] = &labels[i];
    m.labels = list;
    m.n_labels = n;
    return mrd_msg_pack(&f, &m, to, NULL);
}

void
mrd_agent_clock_quality(const mrd_agent *a, mrd_clock_sync_view *view, Mrd__ClockQuality *to)
{
    mrd_clock_sync_get(a->clock, view);
    to->state = view->state;
    to->method = view->method;
    to->bound_ns = view->bound_ns;
    to->offset_ns = view->offset_ns;
    to->probes = view->probes;
}

typedef struct {
    Mrd__Drop drops[MRD_DROP_CAUSES], *list[MRD_DROP_CAUSES];
    char texts[MRD_DROP_CAUSES][32];
    Mrd__Gap gaps[MRD_GAPS_MAX], *gap_list[MRD_GAPS_MAX];
    size_t n_gaps;
    Mrd__Counters counters;
} counter_set;

/* The times of one cause; each gap has its place, so there is room. */
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

/* Drops of one counter list as messages. gaps: NULL for none. */
static size_t
drop_list(counter_set *set, const mrd_record_drop *drops, const mrd_gaps *gaps)
{
    Mrd__Drop *messages = set->drops, **list = set->list;
    char(*texts)[32] = set->texts;
    size_t n = 0;

    for (int i = 0; i < MRD_DROP_CAUSES; i++) {
        if (drops[i].count == 0)
            continue;
        mrd__drop__init(&messages[n]);
        snprintf(texts[n], 32, "%s", mrd_drop_text((mrd_drop_cause) i));
        messages[n].cause = texts[n];
        messages[n].count = drops[i].count;
        messages[n].first_ns = drops[i].first.ns;
        messages[n].last_ns = drops[i].last.ns;
        if (gaps != NULL)
            gap_list(set, gaps, i, &messages[n]);
        list[n] = &messages[n];
        n++;
    }
    return n;
}

static void
fill_counters(counter_set *set, uint64_t begun, uint64_t delivered, uint64_t held,
              const mrd_record_drop *drops, const mrd_gaps *gaps)
{
    set->n_gaps = 0;
    mrd__counters__init(&set->counters);
    set->counters.begun = begun;
    set->counters.delivered = delivered;
    set->counters.held = held;
    set->counters.n_drops = drop_list(set, drops, gaps);
    set->counters.drops = set->list;
}

static const char *
state_word(const mrd_agent *a, const mrd_publish_stats *p, const mrd_spool_stats *spool)
{
    if (!p->welcome)
        return "connecting";
    if (mrd_drain_stands_back(a->drain))
        return "standing-back";
    if (mrd_drain_leaves_out(a->drain))
        return "rings-left-out";
    if (a->spool_failed.ns != 0)
        return "spool-failing";
    if (p->slow)
        return "throttled";
    if (spool->bytes > 16u << 20)
        return "spooling";
    return a->capped_ns > 0 ? "cpu-capped" : "ok";
}

/* What is there and not read. */
static void
get_unread(const mrd_agent *a, Mrd__Unread *to)
{
    unsigned n[MRD_UNREAD_WHYS];
    mrd_files_stats files;

    mrd__unread__init(to);
    mrd_drain_get_unread(a->drain, n);
    mrd_files_get_stats(a->files, &files);
    to->rings_beyond = n[MRD_UNREAD_BEYOND];
    to->rings_held = n[MRD_UNREAD_HELD];
    to->rings_other_boot = n[MRD_UNREAD_OTHER_BOOT];
    to->directories = files.hung + files.foreign + files.refused_dirs;
}

/* Device profiles of one session. */
typedef struct {
    Mrd__DeviceProfile v[MRD_DEVPROF_RESULTS], *list[MRD_DEVPROF_RESULTS];
    char states[MRD_DEVPROF_RESULTS][16], messages[MRD_DEVPROF_RESULTS][160];
    size_t n;
} profile_set;

static void
fill_profiles(profile_set *set, const mrd_devprof *d, uint64_t session, Mrd__SessionStatus *st)
{
    mrd_devprof_result r;

    for (size_t i = 0; set->n < MRD_DEVPROF_RESULTS && mrd_devprof_get(d, session, i, &r); i++) {
        Mrd__DeviceProfile *m = &set->v[set->n];

        mrd__device_profile__init(m);
        snprintf(set->states[set->n], sizeof(set->states[0]), "%s", r.state);
        snprintf(set->messages[set->n], sizeof(set->messages[0]), "%s", r.message);
        m->process_id = r.pid;
        m->nc_idx = r.core < 0 ? -1 : r.core;
        m->state = set->states[set->n];
        m->count = r.count;
        m->message = set->messages[set->n];
        set->list[set->n++] = m;
    }
    st->device_profiles = set->list;
    st->n_device_profiles = set->n;
}

/* Models of one session, or of the node. */
typedef struct {
    const mrd_model_load *from[MRD_MODELS_SENT];
    Mrd__ModelLoad v[MRD_MODELS_SENT], *list[MRD_MODELS_SENT];
    Mrd__ModelList message;
} model_set;

/* The texts are the table's: it does not change while the message is made. */
static Mrd__ModelList *
fill_models(model_set *set, const mrd_model_table *t, uint64_t session)
{
    Mrd__ModelList *m = &set->message;

    mrd__model_list__init(m);
    m->n_loads = mrd_model_table_get(t, session, set->from, MRD_MODELS_SENT, &m->left_out);
    m->loads = set->list;
    for (size_t i = 0; i < m->n_loads; i++) {
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
    return m;
}

/* Of everything that the lists of models depend on: they go again when it changes, until the
 * aggregator has answered. */
static uint64_t
models_signature(const mrd_agent *a)
{
    uint64_t h = mrd_model_table_version(a->models) * 0x9e3779b97f4a7c15u;
    mrd_record_status s;

    for (size_t i = 0; i < mrd_record_sessions(a->record); i++) {
        mrd_record_get(a->record, i, &s);
        h = (h ^ s.id ^ (uint64_t) s.start.ns ^ (uint64_t) s.stop.ns << 1) * 0x9e3779b97f4a7c15u;
    }
    return h | 1; /* 0: nothing was told */
}

#define JOBS_BYTES (48u << 10) /* of a heartbeat: it has room for more than that */

static void
fill_jobs(const mrd_record_status *s, size_t room, Mrd__SessionStatus *to)
{
    size_t n = 0;

    for (size_t used = 0; n < s->jobs->n; n++) {
        used += strlen(s->jobs->v[n]) + 4;
        if (used > room)
            break;
    }
    to->jobs = s->jobs->v;
    to->n_jobs = n;
    to->jobs_left_out = (uint32_t) (s->jobs->n - n) + s->jobs_left_out;
}

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

/* Leaves out the second half of each list of models, or where there are none of each list of device profiles. False:
 * there is nothing left to leave out. */
static bool
shorten(Mrd__Heartbeat *m)
{
    size_t models = shorten_models(m->models), profiles = 0;

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

/* One that is too large would be refused as a whole, and without heartbeats the node is gone. */
static mrd_err
pack_heartbeat(mrd_frame *f, Mrd__Heartbeat *m, mrd_buf *to)
{
    mrd_err err;

    do
        err = mrd_msg_pack(f, m, to, NULL);
    while (err == MRD_LIMIT && shorten(m));
    return err;
}

mrd_err
mrd_agent_heartbeat(void *self, mrd_buf *to)
{
    mrd_agent *a = self;
    mrd_frame f = { .type = MRD_FRAME_HEARTBEAT, .agent = a->key };
    Mrd__Heartbeat m = MRD__HEARTBEAT__INIT;
    Mrd__ClockQuality clock = MRD__CLOCK_QUALITY__INIT;
    Mrd__SessionStatus st[2 * MRD_RECORD_SESSIONS], *list[2 * MRD_RECORD_SESSIONS];
    Mrd__SessionTally tallies[MRD_RECORD_SESSIONS];
    size_t n_sessions = mrd_record_sessions(a->record);
    counter_set all, *each = calloc(2 * MRD_RECORD_SESSIONS, sizeof(*each));
    counter_set *at_boot = each == NULL ? NULL : each + MRD_RECORD_SESSIONS;
    Mrd__CountersAtBoot bases[MRD_RECORD_SESSIONS];
    profile_set *profiles = calloc(n_sessions + 1, sizeof(*profiles));
    uint64_t models_now = models_signature(a);
    model_set *models =
        models_now == a->models_reported ? NULL : calloc(n_sessions + 1, sizeof(*models));
    mrd_record_drop drops[MRD_DROP_CAUSES] = { { 0 } };
    mrd_record_status s, base;
    Mrd__Unread unread;
    mrd_agent_counts c;
    mrd_publish_stats p;
    Mrd__Label note, number, *notes[2] = { &note, &number };
    mrd_clock_sync_view view;
    Mrd__RuntimeFeatures features;
    char state[32], key[] = "trigger", at_key[] = "trigger-at", at[24];
    mrd_err err;

    if (each == NULL || profiles == NULL) {
        free(each);
        free(profiles);
        free(models);
        return MRD_NOMEM;
    }
    a->models_sent = models == NULL ? 0 : models_now;
    if (models != NULL)
        m.models = fill_models(&models[n_sessions], a->models, 0);
    a->features.sent = a->features.signature == a->features.reported ? 0 : a->features.signature;
    if (a->features.sent != 0) {
        mrd__runtime_features__init(&features);
        features.version = a->features.version;
        features.event_types = a->features.types.v;
        features.n_event_types = a->features.types.n;
        features.unknown_functions = a->features.unknown.v;
        features.n_unknown_functions = a->features.unknown.n;
        m.runtime = &features;
    }
    mrd_agent_counters(a, &c);
    get_unread(a, &unread);
    mrd_publish_get_stats(a->publish, &p);
    snprintf(state, sizeof(state), "%s", state_word(a, &p, &c.spool));
    m.state = state;
    m.local_ns = mrd_local_now().ns;
    m.asleep_ns = mrd_asleep_now();
    m.wall_ns = mrd_wall_now().ns;
    for (int i = 0; i < MRD_DROP_CAUSES; i++)
        drops[i].count = c.dropped[i];
    fill_counters(&all, c.begun, c.delivered, c.held, drops, NULL);
    all.counters.since = a->run;
    all.counters.clock_frames_lost = a->clock_lost;
    all.counters.batches = c.frames_acked;
    all.counters.bytes = c.bytes_sent;
    m.counters = &all.counters;
    mrd_agent_clock_quality(a, &view, &clock);
    m.clock = &clock;
    m.answered_ns = view.answered.ns;
    m.answer_raw_ns = view.answer_raw.ns;
    for (size_t i = 0; i < n_sessions; i++) {
        mrd_record_get(a->record, i, &s);
        mrd__session_status__init(&st[i]);
        st[i].session = s.id;
        st[i].phase = s.phase;
        /* Who joins late says from when on its part is whole. */
        st[i].started_local_ns = s.start.ns == INT64_MAX                ? 0
                                 : mrd_local_after(s.reported, s.start) ? s.reported.ns
                                                                        : s.start.ns;
        st[i].stopped_local_ns = s.stop.ns == INT64_MAX ? 0 : s.stop.ns;
        st[i].start_bound_ns = s.start_bound_ns;
        st[i].last_seq = s.last_seq;
        st[i].recorder_bytes = s.recorder_bytes;
        st[i].recorder_first_ns = s.recorder_first.ns;
        st[i].revision = s.revision;
        st[i].triggers = (uint64_t *) (uintptr_t) s.triggers;
        st[i].n_triggers = s.n_triggers;
        if (s.phase == MRD__NODE_PHASE__NODE_FLUSHED)
            st[i].complete_local_ns = s.stop.ns;
        fill_counters(&each[i], s.begun, s.delivered, s.held, s.drops, &s.gaps);
        each[i].counters.since = a->o.spool_dir != NULL ? mrd_spool_since(a->spool) /* goes on */
                                                        : a->run;
        if (a->o.spool_dir != NULL && mrd_record_base(a->record, s.id, &base)) {
            mrd__counters_at_boot__init(&bases[i]);
            bases[i].begun = base.begun;
            bases[i].delivered = base.delivered;
            bases[i].held = base.held;
            bases[i].n_drops = drop_list(&at_boot[i], base.drops, NULL);
            bases[i].drops = at_boot[i].list;
            each[i].counters.at_boot = &bases[i];
        }
        each[i].counters.clock_frames_lost = s.clock_lost;
        st[i].counters = &each[i].counters;
        fill_profiles(&profiles[i], a->devprof, s.id, &st[i]);
        if (models != NULL)
            st[i].models = fill_models(&models[i], a->models, s.id);
        mrd__session_tally__init(&tallies[i]);
        tallies[i].chosen = s.chosen;
        tallies[i].left_out = s.left_out;
        tallies[i].processes = s.processes;
        tallies[i].selected = s.selected;
        tallies[i].in_flight = s.in_flight;
        tallies[i].running = s.running;
        st[i].tally = &tallies[i];
        fill_jobs(&s, JOBS_BYTES / n_sessions, &st[i]);
        if (s.phase == MRD__NODE_PHASE__NODE_RECORDING || s.phase == MRD__NODE_PHASE__NODE_STOPPING)
            st[i].unread = &unread;
        list[i] = &st[i];
    }
    for (size_t i = 0; i < a->n_refusals; i++, n_sessions++) {
        mrd__session_status__init(&st[n_sessions]);
        st[n_sessions].session = a->refusals[i].session;
        st[n_sessions].phase = MRD__NODE_PHASE__NODE_REFUSED;
        st[n_sessions].err = (uint32_t) a->refusals[i].err;
        st[n_sessions].message = a->refusals[i].message;
        list[n_sessions] = &st[n_sessions];
    }
    m.sessions = list;
    m.n_sessions = n_sessions;
    m.spool_bytes = c.spool.bytes;
    m.memory_bytes = mrd_resident_bytes();
    m.certificate_begin_ns = a->cert.begin.ns;
    m.certificate_end_ns = a->cert.end.ns;
    m.unread = &unread;
    m.rings = (uint32_t) c.pipe.rings;
    m.processes = (uint32_t) c.pipe.processes;
    if (a->trigger_reason[0] != '\0' && m.local_ns - a->trigger_at.ns < 10 * MRD_SEC) {
        label(&note, key, a->trigger_reason);
        snprintf(at, sizeof(at), "%lld", (long long) a->trigger_at.ns);
        label(&number, at_key, at); /* the same message may come again */
        m.notes = notes;
        m.n_notes = 2;
    }
    err = pack_heartbeat(&f, &m, to);
    free(each);
    free(profiles);
    free(models);
    return err;
}

/* ---- Metrics ---- */

void
mrd_agent_metrics(const mrd_agent *a, bool open, mrd_buf *to)
{
    mrd_agent_counts c;
    mrd_publish_stats sent = { 0 };
    Mrd__Unread unread;
    mrd_metrics_text x;
    const mrd_cert_file certificates[] = { { "tls-cert", a->o.tls_cert },
                                           { "tls-ca", a->o.tls_ca } };
    const char *name;
    uint64_t over;

    mrd_agent_counters(a, &c);
    get_unread(a, &unread);
    if (a->publish != NULL)
        mrd_publish_get_stats(a->publish, &sent);
    {
        const struct {
            mrd_metrics_text_kind kind;
            const char *name, *help;
            uint64_t v;
        } rows[] = {
#define COUNTER(name, help, v) { MRD_METRICS_COUNTER, "meridian_agent_" name, help, v }
#define GAUGE(name, help, v)                                                                       \
    {                                                                                              \
        MRD_METRICS_GAUGE, "meridian_agent_" name, help, v                                         \
    }
            COUNTER("events_begun_total", "Events the agent learned of, losses included.", c.begun),
            COUNTER("events_recovered_total",
                    "Events found in the spool at the start: begun again, but counted by a "
                    "predecessor, too.",
                    a->recovered),
            COUNTER("events_delivered_total", "Events the aggregator has stored.", c.delivered),
            GAUGE("events_held", "Events in rings' open spans, open batches, recorder and spool.",
                  c.held),
            COUNTER("ring_records_total", "Records read from rings.", c.pipe.records),
            GAUGE("rings", "Rings being read.", c.pipe.rings),
            GAUGE("rings_beyond", "Rings not read: more than may be open.", unread.rings_beyond),
            GAUGE("rings_held", "Rings not read: another agent reads them.", unread.rings_held),
            GAUGE("rings_other_boot", "Rings of another boot, which cannot be read.",
                  unread.rings_other_boot),
            GAUGE("directories_left_out",
                  "Capture directories not read: of other users, beyond a user's share, or on a "
                  "file system that does not answer.",
                  unread.directories),
            COUNTER("ring_files_refused_total",
                    "Files with the name of a ring that are no ring, or not to be read.",
                    c.pipe.files_refused),
            COUNTER("rings_bad_total", "Rings retired because they contradict themselves.",
                    c.pipe.rings_bad),
            GAUGE("processes", "Processes with rings.", c.pipe.processes),
            COUNTER("frames_sent_total", "Frames sent, repetitions included.", c.frames_sent),
            COUNTER("frames_stored_total", "Frames acknowledged.", c.frames_acked),
            COUNTER("clock_frames_lost_total",
                    "Frames of clock data dropped from the spool, not stored, or refused.",
                    a->clock_lost),
            COUNTER("frames_refused_total", "Frames the aggregator will never store.",
                    c.frames_refused),
            COUNTER("sent_bytes_total", "Bytes of frames sent.", c.bytes_sent),
            GAUGE("spool_bytes", "Bytes of frames not acknowledged.", c.spool.bytes),
            GAUGE("spool_file_bytes", "Bytes of the spool's files.", c.spool.file_bytes),
            COUNTER("spool_failures_total", "Batches and commits that could not be written.",
                    c.spool.failures),
            GAUGE("connected", "1 while the aggregator has accepted this agent.", c.connected),
            GAUGE("unreached_seconds",
                  "For how long the aggregator has not been reached; 0 while it is.",
                  (uint64_t) (mrd_agent_unreached_ns(a) / MRD_SEC)),
            COUNTER("reconnects_total", "Connections made.", c.reconnects),
            COUNTER("samples_total", "Counter samples taken.", c.samples),
            COUNTER("sample_errors_total", "Counter polls that failed.", c.sample_errors),
            COUNTER("artifacts_delivered_total", "Files that the aggregator has stored.",
                    c.artifacts_sent),
            COUNTER("artifacts_failed_total", "Files that could not be delivered.",
                    c.artifacts_failed),
            GAUGE("files_beyond_limit", "Files beyond --files-max, which are left out.",
                  c.files_beyond),
            GAUGE("files_refused",
                  "Files in capture directories that are links or belong to other users.",
                  c.files_refused),
            GAUGE("files_ignored", "Files of unknown kinds in capture directories.",
                  c.files_ignored),
            COUNTER("artifact_bytes_total", "Bytes of files sent.", c.artifact_bytes),
            COUNTER("trace_files_total", "Trace files read into events.", c.traces),
            COUNTER("trace_files_failed_total", "Trace files that could not be read.",
                    c.traces_failed),
            COUNTER("trace_file_events_total", "Events of trace files.", c.trace_events),
            COUNTER("jobs_left_total",
                    "Jobs that asked to be recorded and are not: refused, or without a session "
                    "for too long.",
                    a->jobs == NULL ? 0 : mrd_jobs_left(a->jobs)),
            COUNTER("triggers_total", "Events that asked to keep what was recorded.",
                    c.triggers_seen),
            GAUGE("resident_memory_bytes", "Memory of the agent.", mrd_resident_bytes()),
#undef COUNTER
#undef GAUGE
        };

        mrd_metrics_text_begin(&x, to, open);
        for (size_t i = 0; i < MRD_COUNT(rows); i++)
            mrd_metrics_text_one(&x, rows[i].kind, rows[i].name, rows[i].help, rows[i].v);
    }
    mrd_metrics_text_family(&x, MRD_METRICS_COUNTER, "meridian_agent_events_dropped_total",
                            "Events lost, by cause.");
    for (int i = 0; i < MRD_DROP_CAUSES; i++) {
        char label[80];

        snprintf(label, sizeof(label), "cause=\"%s\"", mrd_drop_text((mrd_drop_cause) i));
        mrd_metrics_text_u64(&x, label, c.dropped[i]);
    }
    mrd_metrics_text_family(&x, MRD_METRICS_COUNTER, "meridian_agent_turns_over_budget_total",
                            "Turns of a collector that kept the agent's loop for more than 50 ms.");
    for (size_t i = 0; mrd_collectors_get(a, i, &name, &over); i++) {
        char label[80];

        snprintf(label, sizeof(label), "collector=\"%s\"", name);
        mrd_metrics_text_u64(&x, label, over);
    }
    mrd_cert_times_metrics(&x, certificates, MRD_COUNT(certificates));
    mrd_metrics_text_hist_write(&x, "meridian_agent_acknowledgement_seconds",
                                "From sending a frame to its acknowledgement.", &sent.ack);
    mrd_metrics_text_process(&x);
    mrd_metrics_text_end(&x);
}

static void
write_metrics(void *self, bool open, mrd_buf *to)
{
    mrd_agent_metrics(self, open, to);
}

mrd_err
mrd_agent_open_metrics(mrd_agent *a, mrd_why *why)
{
    mrd_metrics_options o = { .address = a->o.metrics_address,
                              .port = (uint16_t) a->o.metrics_port,
                              .write = write_metrics,
                              .ready = mrd_agent_ready,
                              .self = a };
    mrd_err err = MRD_OK;

    if (a->o.metrics_port <= 0)
        return MRD_OK;
    if (a->o.metrics_token_file != NULL)
        err = mrd_secret_read("token file", a->o.metrics_token_file, &a->metrics_token, why);
    if (err == MRD_OK && a->metrics_token != NULL && strlen(a->metrics_token) < 16)
        err = mrd_why_set(why, MRD_LIMIT, 0, "the token in %s has fewer than 16 characters",
                          a->o.metrics_token_file);
    o.token = a->metrics_token;
    return err == MRD_OK ? mrd_metrics_open(&o, &a->metrics, why) : err;
}
