#include "aggregator/hub.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "aggregator/timeserve.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/out.h"

static void
boot_id_read(char *to, size_t size)
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (f == NULL || fgets(to, (int) size, f) == NULL)
        hub_copy(to, size, "unknown");
    to[strcspn(to, "\n")] = '\0';
    if (f != NULL)
        fclose(f);
}

static mrd_err
timeline_save(const hub *h, const char *path, int64_t moves, mrd_why *why)
{
    mrd_buf text = { 0 };
    mrd_err err;

    mrd_buf_fmt(&text,
                "{\"boot_id\": \"%s\", \"session_offset_ns\": %lld, \"timeline\": \"%s\", "
                "\"moves\": %lld}\n",
                h->boot_id, (long long) h->session_offset_ns, h->timeline, (long long) moves);
    err = mrd_write_file_durable(path, (mrd_bytes){ text.p, text.len }, 0644, why);
    mrd_buf_fini(&text);
    return err;
}

/* The session timeline is this machine's RAW clock plus one constant, chosen once per boot so that
 * it reads as UTC: a restarted aggregator goes on with it. A store that comes back to a machine
 * begins another: what went on elsewhere is not on this one's clock. */
static mrd_err
timeline_init(hub *h, mrd_why *why)
{
    char *path = hub_path(h, NULL, "clock.json");
    mrd_json *o = NULL;
    mrd_err err = MRD_OK;
    int64_t moves = 0;

    if (path == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "store %s", h->store);
    (void) mrd_json_load(path, &o, NULL);
    if (strcmp(mrd_json_str(o, "boot_id", ""), h->boot_id) == 0 &&
        mrd_json_int(o, "session_offset_ns", 0) != 0) {
        h->session_offset_ns = mrd_json_int(o, "session_offset_ns", 0);
        hub_copy(h->timeline, sizeof(h->timeline), mrd_json_str(o, "timeline", h->boot_id));
    } else {
        if (o != NULL)
            moves = mrd_json_int(o, "moves", 0) + 1;
        h->session_offset_ns = mrd_wall_now().ns - mrd_local_now().ns;
        snprintf(h->timeline, sizeof(h->timeline), moves > 0 ? "%.40s#%lld" : "%.40s", h->boot_id,
                 (long long) moves);
        err = timeline_save(h, path, moves, why);
    }
    mrd_json_free(o);
    free(path);
    return err;
}

mrd_err
hub_init(hub *h, const char *store, mrd_why *why)
{
    char *sessions = NULL;
    uint64_t id[2];
    mrd_err err = MRD_NOMEM;

    pthread_mutex_init(&h->save_lock, NULL);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    h->store = mrd_str_dup(mrd_str_of(store));
    h->bucket_ns = mrd_local_now().ns;
    boot_id_read(h->boot_id, sizeof(h->boot_id));
    mrd_random(id, sizeof(id));
    snprintf(h->id, sizeof(h->id), "%016llx%016llx", (unsigned long long) id[0],
             (unsigned long long) id[1]);
    if (h->store == NULL || asprintf(&sessions, "%s/sessions", store) < 0)
        return mrd_why_set(why, MRD_NOMEM, 0, "store %s", store);
    err = mrd_make_dirs_durable(sessions, why);
    free(sessions);
    return err != MRD_OK ? err : timeline_init(h, why);
}

void
hub_fini(hub *h)
{
    for (size_t i = 0; i < h->n_sessions; i++)
        session_free(h->sessions[i]);
    for (size_t i = 0; i < h->n_nodes; i++) {
        mrd_strlist_fini(&h->nodes[i]->labels);
        clocks_forget(h->nodes[i]);
        free(h->nodes[i]);
    }
    free(h->sessions);
    free(h->nodes);
    mrd_map_fini(&h->node_by_id);
    mrd_map_fini(&h->node_by_conn);
    free(h->store);
    artifact_fini(h);
    keep_fini(h);
    mrd_auth_free(h->auth);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    pthread_mutex_destroy(&h->save_lock);
}

int64_t
hub_session_now(const hub *h)
{
    return mrd_local_now().ns + h->session_offset_ns;
}

static mrd_map_key
id_key(const char *instance_id)
{
    size_t len = strlen(instance_id);

    return (mrd_map_key){ .a = mrd_hash64(instance_id, len, 1),
                          .b = mrd_hash64(instance_id, len, 2),
                          .c = len };
}

static mrd_map_key
conn_key(uint32_t conn)
{
    return (mrd_map_key){ .a = conn };
}

hub_node *
hub_node_by_conn(hub *h, uint32_t conn)
{
    uint32_t at = mrd_map_get(&h->node_by_conn, conn_key(conn));

    return at == MRD_MAP_NONE ? NULL : h->nodes[at];
}

hub_node *
hub_node_by_id(hub *h, const char *instance_id)
{
    uint32_t at = mrd_map_get(&h->node_by_id, id_key(instance_id));

    if (at == MRD_MAP_NONE || strcmp(h->nodes[at]->instance_id, instance_id) == 0)
        return at == MRD_MAP_NONE ? NULL : h->nodes[at];
    for (size_t i = 0; i < h->n_nodes; i++) { /* two names with one hash: made on purpose */
        if (strcmp(h->nodes[i]->instance_id, instance_id) == 0)
            return h->nodes[i];
    }
    return NULL;
}

/* The first of two names with one hash keeps the entry. */
static mrd_err
id_put(mrd_map *map, const char *instance_id, size_t at)
{
    mrd_map_key key = id_key(instance_id);

    return mrd_map_get(map, key) != MRD_MAP_NONE ? MRD_OK : mrd_map_put(map, key, (uint32_t) at);
}

hub_node *
hub_node_add(hub *h, const char *instance_id)
{
    hub_node **v = realloc(h->nodes, (h->n_nodes + 1) * sizeof(*v));
    hub_node *n;

    if (v == NULL)
        return NULL;
    h->nodes = v;
    if ((n = calloc(1, sizeof(*n))) == NULL ||
        id_put(&h->node_by_id, instance_id, h->n_nodes) != MRD_OK) {
        free(n);
        return NULL;
    }
    hub_copy(n->instance_id, sizeof(n->instance_id), instance_id);
    n->clock.bound_ns = -1;
    n->bucket_ns = mrd_local_now().ns;
    n->at = (uint32_t) h->n_nodes;
    h->nodes[h->n_nodes++] = n;
    return n;
}

/* The node longest gone of those that nobody expects any more. */
static hub_node *
forgotten(const hub *h)
{
    hub_node *oldest = NULL;

    for (size_t i = 0; i < h->n_nodes; i++) {
        hub_node *n = h->nodes[i];

        if (n->conn == 0 && !hub_node_expected(h, n) &&
            (oldest == NULL || n->seen_ns < oldest->seen_ns))
            oldest = n;
    }
    return oldest;
}

static void
node_free(hub *h, hub_node *n)
{
    hub_node *last = h->nodes[--h->n_nodes];

    h->known.changed = true;
    if (mrd_map_get(&h->node_by_id, id_key(n->instance_id)) == n->at)
        mrd_map_remove(&h->node_by_id, id_key(n->instance_id));
    if (last != n) { /* takes its place; neither map grows by that */
        if (mrd_map_get(&h->node_by_id, id_key(last->instance_id)) == last->at)
            (void) mrd_map_put(&h->node_by_id, id_key(last->instance_id), n->at);
        if (last->conn != 0)
            (void) mrd_map_put(&h->node_by_conn, conn_key(last->conn), n->at);
        last->at = n->at;
        h->nodes[n->at] = last;
    }
    if (h->timeserve != NULL)
        mrd_timeserve_forget(h->timeserve, n->key);
    mrd_strlist_fini(&n->labels);
    clocks_forget(n);
    free(n);
}

void
hub_nodes_drop(hub *h)
{
    for (size_t i = h->n_nodes; i-- > 0;) {
        if (h->nodes[i]->forget && h->nodes[i]->conn == 0)
            node_free(h, h->nodes[i]);
    }
}

bool
hub_node_room(hub *h)
{
    hub_node *gone;

    if ((int64_t) h->n_nodes < h->limits.max_nodes)
        return true;
    if ((gone = forgotten(h)) == NULL)
        return false;
    node_free(h, gone);
    return true;
}

const char *
limit_text(limit_kind kind)
{
    static const char *const names[LIMIT_KINDS] = {
        "none",         "agent-rate",        "total-rate",   "max-connections", "max-nodes",
        "max-sessions", "max-open-sessions", "session-size", "disk-reserve",    "uploads",
        "epochs"
    };

    return kind < LIMIT_KINDS ? names[kind] : "unknown";
}

limit_kind
hub_node_limited(const hub_node *n)
{
    return n->limited_by != LIMIT_NONE && mrd_local_now().ns - n->limited_ns < 5 * MRD_SEC
               ? n->limited_by
               : LIMIT_NONE;
}

void
hub_node_connect(hub *h, hub_node *n, uint32_t conn)
{
    hub_node *before = conn == 0 ? NULL : hub_node_by_conn(h, conn);

    if (before != NULL && before != n)
        before->conn = 0;
    if (n->conn != 0 && n->conn != conn)
        mrd_map_remove(&h->node_by_conn, conn_key(n->conn));
    n->conn = 0;
    if (conn != 0 && mrd_map_put(&h->node_by_conn, conn_key(conn), n->at) == MRD_OK)
        n->conn = conn;
}

bool
hub_node_alive(const hub *h, const hub_node *n)
{
    return n->conn != 0 && mrd_local_now().ns - n->seen_ns < h->limits.node_timeout_ns;
}

bool
hub_node_expected(const hub *h, const hub_node *n)
{
    return !n->forget && mrd_local_now().ns - n->seen_ns < h->limits.node_forget_ns;
}

hub_session *
hub_session_by_id(hub *h, uint64_t id)
{
    for (size_t i = 0; i < h->n_sessions; i++) {
        if (h->sessions[i]->id == id && !h->sessions[i]->deleted)
            return h->sessions[i];
    }
    return NULL;
}

hub_part *
hub_part_of(hub_session *s, const char *instance_id)
{
    uint32_t at = mrd_map_get(&s->part_by_id, id_key(instance_id));

    if (at == MRD_MAP_NONE || strcmp(s->parts[at]->instance_id, instance_id) == 0)
        return at == MRD_MAP_NONE ? NULL : s->parts[at];
    for (size_t i = 0; i < s->n_parts; i++) {
        if (strcmp(s->parts[i]->instance_id, instance_id) == 0)
            return s->parts[i];
    }
    return NULL;
}

#define CLOCK_SPARE_MAX (64 << 20)

void
hub_disk(hub *h, bool full)
{
    int64_t now = mrd_wall_now().ns;

    h->disk_full = full;
    h->clock_spare = h->limits.disk_reserve / 16;
    h->clock_spare = h->clock_spare > CLOCK_SPARE_MAX ? CLOCK_SPARE_MAX : h->clock_spare;
    for (size_t i = 0; i < h->n_sessions; i++) {
        hub_session *s = h->sessions[i];

        if (!hub_session_open(s))
            continue;
        if (full)
            s->full_ns = s->full_ns == 0 ? now : s->full_ns;
        else
            s->room_ns = now;
        s->dirty = true;
    }
}

hub_part *
hub_part_add(hub_session *s, const hub_node *n)
{
    hub_part **v = realloc(s->parts, (s->n_parts + 1) * sizeof(*v));
    hub_part *p;

    if (v == NULL)
        return NULL;
    s->parts = v;
    if ((p = calloc(1, sizeof(*p))) == NULL ||
        id_put(&s->part_by_id, n->instance_id, s->n_parts) != MRD_OK) {
        free(p);
        return NULL;
    }
    hub_copy(p->instance_id, sizeof(p->instance_id), n->instance_id);
    hub_copy(p->host_name, sizeof(p->host_name), n->host_name);
    hub_copy(p->boot_id, sizeof(p->boot_id), n->boot_id);
    p->local_ns = n->hello_local_ns;
    p->wall_ns = n->hello_wall_ns;
    p->start_bound_ns = p->clock.bound_ns = -1;
    p->first_ns = INT64_MAX;
    p->last_ns = INT64_MIN;
    p->simulated = n->simulated;
    p->state = PART_ARMED;
    s->parts[s->n_parts++] = p;
    s->dirty = true;
    return p;
}

bool
part_has_heard(const hub_part *p, size_t trigger)
{
    return (p->heard[trigger / 64] >> (trigger % 64) & 1) != 0;
}

void
part_heard(hub_session *s, hub_part *p, size_t trigger)
{
    if (part_has_heard(p, trigger))
        return;
    p->heard[trigger / 64] |= 1ull << (trigger % 64);
    s->triggers[trigger].answered++;
    s->dirty = true;
}

bool
part_is_without(const hub_part *p)
{
    return p->state == PART_REFUSED || p->state == PART_LOST || p->state == PART_MISSING;
}

int64_t
hub_time(int64_t ns)
{
    return ns > -(1LL << 62) && ns < 1LL << 62 ? ns : 0;
}

uint64_t
hub_count(uint64_t n)
{
    return n < HUB_COUNT_MAX ? n : HUB_COUNT_MAX;
}

int64_t
part_began(const hub_part *p)
{
    bool aligned = p->clock.state[0] != '\0' && p->clock.bound_ns >= 0;

    uint64_t began = (uint64_t) p->started_local_ns; /* a manifest may say anything */

    if (p->started_local_ns == 0 || p->state == PART_REFUSED || p->state == PART_MISSING)
        return 0;
    began +=
        aligned ? (uint64_t) p->clock.offset_ns : (uint64_t) p->wall_ns - (uint64_t) p->local_ns;
    return hub_time((int64_t) began);
}

bool
part_missed(const hub_session *s, const hub_part *p, size_t trigger)
{
    int64_t began = part_began(p);

    return s->triggers[trigger].sent && !part_has_heard(p, trigger) && began != 0 &&
           began < s->triggers[trigger].to_ns;
}

part_epoch *
part_epoch_of(hub_part *p, uint64_t epoch)
{
    part_epoch *e;

    for (unsigned i = 0; i < p->n_epochs; i++) {
        if (p->epochs[i].epoch == epoch)
            return &p->epochs[i];
    }
    if (p->n_epochs == HUB_EPOCHS_MAX)
        return NULL;
    e = &p->epochs[p->n_epochs];
    *e = (part_epoch){ .epoch = epoch, .stored = mrd_seqset_new() };
    if (e->stored == NULL)
        return NULL;
    p->n_epochs++;
    return e;
}

uint64_t
part_frames(const hub_part *p)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < p->n_epochs; i++) {
        uint64_t end = mrd_seqset_end(p->epochs[i].stored);

        sum += end - mrd_seqset_missing(p->epochs[i].stored, end);
    }
    return sum;
}

static uint64_t
larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void
part_damaged(hub_session *s, hub_part *p, const hub_damage *found, bool whole)
{
    hub_damage now = whole ? *found
                           : (hub_damage){ .events = larger(p->damage.events, found->events),
                                           .frames = larger(p->damage.frames, found->frames),
                                           .foreign = larger(p->damage.foreign, found->foreign) };

    if (memcmp(&now, &p->damage, sizeof(now)) == 0)
        return;
    p->damage = now;
    s->dirty = true;
    if (now.events > 0 || now.frames > 0)
        mrd_log(MRD_LOG_ERROR, "AGG-JOURNAL-DAMAGE",
                "Stored events cannot be read back: session=%s node=%s events=%llu frames=%llu",
                s->text, p->instance_id, (unsigned long long) now.events,
                (unsigned long long) now.frames);
    if (now.foreign > 0)
        mrd_log(MRD_LOG_WARN, "AGG-FOREIGN",
                "Batches claim another node and are shown as of their sender: session=%s node=%s "
                "batches=%llu",
                s->text, p->instance_id, (unsigned long long) now.foreign);
}

mrd_err
part_stored(hub_part *p, const mrd_frame *f)
{
    part_epoch *e = part_epoch_of(p, f->epoch);
    mrd_err err = e == NULL ? MRD_LIMIT : mrd_seqset_add(e->stored, f->seq);

    if (err != MRD_OK)
        return err;
    p->bytes += MRD_FRAME_HEADER + f->body_len;
    if (f->type != MRD_FRAME_BATCH)
        return MRD_OK;
    p->batches++;
    p->events += f->events;
    if (f->clock == MRD__CLOCK_KIND__CLOCK_RAW) {
        p->first_ns = f->first_ns < p->first_ns ? f->first_ns : p->first_ns;
        p->last_ns = f->last_ns > p->last_ns ? f->last_ns : p->last_ns;
    }
    return MRD_OK;
}

bool
hub_session_open(const hub_session *s)
{
    return !s->deleted && !s->closed &&
           (s->state == SESSION_ARMING || s->state == SESSION_RECORDING ||
            s->state == SESSION_STOPPING);
}

char *
hub_path(const hub *h, const hub_session *s, const char *format, ...)
{
    char *tail = NULL, *path = NULL;
    va_list args;
    int n;

    va_start(args, format);
    n = vasprintf(&tail, format, args);
    va_end(args);
    if (n < 0)
        return NULL;
    n = s == NULL ? asprintf(&path, "%s/%s", h->store, tail)
                  : asprintf(&path, "%s/sessions/%s/%s", h->store, s->text, tail);
    free(tail);
    return n < 0 ? NULL : path;
}

void
hub_copy(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from == NULL ? "" : from);
}

void *
hub_grow(void *list, size_t n, size_t member_size)
{
    return (n & (n - 1)) != 0 ? list : realloc(list, (n == 0 ? 1 : 2 * n) * member_size);
}

static void
drop_add(hub_counters *to, const char *cause, uint64_t count, int64_t first_ns, int64_t last_ns)
{
    hub_drop *slot = NULL;

    for (unsigned i = 0; i < to->n_drops && slot == NULL; i++) {
        if (strcmp(to->drops[i].cause, cause) == 0)
            slot = &to->drops[i];
    }
    if (slot != NULL) {
        slot->first_ns = first_ns < slot->first_ns ? first_ns : slot->first_ns;
        slot->last_ns = last_ns > slot->last_ns ? last_ns : slot->last_ns;
        slot->count += count;
        slot->count = hub_count(slot->count);
    } else if (to->n_drops == HUB_DROPS_MAX) { /* gather the rest */
        slot = &to->drops[HUB_DROPS_MAX - 1];
        hub_copy(slot->cause, sizeof(slot->cause), "other");
        slot->count += count;
    } else {
        slot = &to->drops[to->n_drops++];
        *slot = (hub_drop){ .count = count, .first_ns = first_ns, .last_ns = last_ns };
        hub_copy(slot->cause, sizeof(slot->cause), cause);
    }
}

void
hub_counters_add(hub_counters *to, const hub_counters *from)
{
    to->begun += from->begun;
    to->delivered += from->delivered;
    to->clock_lost += from->clock_lost;
    to->held += from->held;
    for (unsigned i = 0; i < from->n_drops; i++)
        drop_add(to, from->drops[i].cause, from->drops[i].count, from->drops[i].first_ns,
                 from->drops[i].last_ns);
}

void
hub_counters_take(hub_counters *to, const Mrd__Counters *from)
{
    if (from == NULL)
        return;
    *to = (hub_counters){ .begun = hub_count(from->begun),
                          .delivered = hub_count(from->delivered),
                          .held = hub_count(from->held),
                          .clock_lost = hub_count(from->clock_frames_lost) };
    for (size_t i = 0; i < from->n_drops; i++)
        drop_add(to, from->drops[i]->cause, hub_count(from->drops[i]->count),
                 from->drops[i]->first_ns, from->drops[i]->last_ns);
}

/* What a run of the agent held when it was last heard of is gone when the next one counts anew. */
void
part_count(hub_part *p, const Mrd__Counters *c)
{
    if (c == NULL)
        return;
    if (p->last.begun > 0 && (c->since != p->since || c->begun < p->last.begun)) {
        uint64_t held = p->last.held;

        p->last.held = 0;
        hub_counters_add(&p->before, &p->last);
        if (held > 0)
            drop_add(&p->before, "agent-restarted", held, p->last_ns < p->first_ns ? 0 : p->last_ns,
                     p->last_ns < p->first_ns ? 0 : p->last_ns);
    }
    p->since = c->since;
    hub_counters_take(&p->last, c);
    p->counters = p->before;
    hub_counters_add(&p->counters, &p->last);
}

void
hub_clock_take(hub_clock *to, const Mrd__ClockQuality *from)
{
    if (from == NULL)
        return;
    hub_copy(to->state, sizeof(to->state), from->state);
    hub_copy(to->method, sizeof(to->method), from->method);
    to->bound_ns = mrd_time_sane(from->bound_ns) ? from->bound_ns : -1;
    to->offset_ns = hub_time(from->offset_ns);
    to->probes = hub_count(from->probes);
}

uint64_t
hub_dropped(const hub_counters *c)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < c->n_drops; i++)
        sum += c->drops[i].count;
    return sum;
}

uint64_t
hub_unwanted(const hub_counters *c)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < c->n_drops; i++) {
        if (strcmp(c->drops[i].cause, "not-recorded") == 0 ||
            strcmp(c->drops[i].cause, "recorder-window") == 0)
            sum += c->drops[i].count;
    }
    return sum;
}

const char *
session_state_text(session_state s)
{
    static const char *const names[SESSION_STATES] = { "arming",  "recording", "stopping",
                                                       "merging", "complete",  "failed" };

    return s < SESSION_STATES ? names[s] : "unknown";
}

const char *
part_state_text(part_state s)
{
    static const char *const names[PART_STATES] = { "armed",   "recording", "stopping", "flushed",
                                                    "refused", "lost",      "missing" };

    return s < PART_STATES ? names[s] : "unknown";
}
