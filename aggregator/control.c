#include "aggregator/hub.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/num.h"
#include "base/obj.h"

#define STEP_MS   200
#define SAVE_NS   MRD_SEC
#define RETAIN_NS (10 * MRD_SEC)

#define DELAY_MAX    (4 * MRD_SEC)
#define COME_BACK_NS (12 * MRD_SEC) /* the longest back-off of an agent, and its hello */

#define TRIGGERS_AGAIN 16 /* the last ones; nodes remember more */
#define NOTED_WINDOW   (20 * MRD_SEC)
#define NOTED_GATHER   (500 * MRD_MS)
#define NOTED_PERIOD   MRD_SEC

struct control {
    hub *h;
    pthread_t thread;
    bool closing; /* under h->lock */
    int64_t next_save_ns, next_retain_ns;
};

/* ---- Messages ---- */

static void
message_numbers(control_message *m, unsigned i, const mrd_strlist *list, size_t *ret_n,
                int64_t **ret_v)
{
    size_t n = 0;

    if (list->n > 0 && (m->numbers[i] = calloc(list->n, sizeof(int64_t))) != NULL) {
        for (size_t k = 0; k < list->n; k++)
            n += mrd_num_i64(mrd_str_of(list->v[k]), &m->numbers[i][n]) == MRD_OK;
    }
    *ret_n = n;
    *ret_v = m->numbers[i];
}

static void
message_option(control_message *m, char *key, char *value)
{
    Mrd__Label *l = &m->labels[m->control.n_options];

    mrd__label__init(l);
    l->key = key;
    l->value = value;
    m->options[m->control.n_options++] = l;
}

/* A message about a session. Strings borrow from it. */
static void
message_init(control_message *m, hub_session *s, Mrd__ControlType type, int64_t at_ns)
{
    static char profiles[] = "device_profiles", counter[] = "counter", period[] = "counter_period";
    const hub_select *from = &s->select;
    Mrd__Selection *to = &m->select;

    memset(m, 0, sizeof(*m));
    mrd__control__init(&m->control);
    mrd__selection__init(to);
    to->n_instances = from->instances.n;
    to->instances = from->instances.v;
    to->n_jobs = from->jobs.n;
    to->jobs = from->jobs.v;
    to->n_cores = from->cores.n;
    to->cores = from->cores.v;
    to->n_types = from->types.n;
    to->types = from->types.v;
    to->n_sources = from->sources.n;
    to->sources = from->sources.v;
    message_numbers(m, 0, &from->ranks, &to->n_ranks, &to->ranks);
    message_numbers(m, 1, &from->processes, &to->n_processes, &to->processes);
    m->control.type = type;
    m->control.session = s->id;
    m->control.name = s->name;
    m->control.mode =
        s->recorder ? MRD__SESSION_MODE__MODE_RECORDER : MRD__SESSION_MODE__MODE_STREAM;
    m->control.select = to;
    m->control.at_session_ns = at_ns;
    m->control.at_wall_ns = at_ns; /* session time reads as UTC */
    m->control.recorder_ns = s->recorder_ns;
    m->control.recorder_bytes = s->recorder_bytes;
    m->control.options = m->options;
    if (s->device_profiles[0] != '\0')
        message_option(m, profiles, s->device_profiles);
    for (size_t i = 0; i < s->counters.n && i < HUB_COUNTERS; i++)
        message_option(m, counter, s->counters.v[i]);
    if (s->counters.n > 0)
        message_option(m, period, s->counter_period);
}

void
control_message_fini(control_message *m)
{
    free(m->numbers[0]);
    free(m->numbers[1]);
}

static mrd_err
message_frame(const control_message *m, mrd_buf *to)
{
    mrd_frame f = { .type = MRD_FRAME_CONTROL, .session = m->control.session };

    return mrd_msg_pack(&f, &m->control, to, NULL);
}

/* ---- Directives ---- */

static const Mrd__SessionStatus *
status_of(const Mrd__Heartbeat *hb, uint64_t session)
{
    for (size_t i = 0; hb != NULL && i < hb->n_sessions; i++) {
        if (hb->sessions[i]->session == session)
            return hb->sessions[i];
    }
    return NULL;
}

/* What the node does not know yet about an open session, CONTROL_NONE: nothing. */
static Mrd__ControlType
directive_for(hub_session *s, const hub_node *n, const Mrd__SessionStatus *st)
{
    const hub_part *p = hub_part_of(s, n->instance_id);
    Mrd__NodePhase phase = st == NULL ? MRD__NODE_PHASE__NODE_IDLE : st->phase;

    /* Who was merely silent when asked (its control connection comes back after its data
     * connection, say), or away, joins late. */
    if (p != NULL && p->state == PART_REFUSED && p->err != MRD_TIMEOUT)
        return MRD__CONTROL_TYPE__CONTROL_NONE;
    if (s->state == SESSION_RECORDING && select_matches(&s->select, n) &&
        (phase == MRD__NODE_PHASE__NODE_IDLE || phase == MRD__NODE_PHASE__NODE_ARMED))
        return MRD__CONTROL_TYPE__CONTROL_GO;
    if (s->state == SESSION_STOPPING &&
        (phase == MRD__NODE_PHASE__NODE_RECORDING || phase == MRD__NODE_PHASE__NODE_ARMED))
        return MRD__CONTROL_TYPE__CONTROL_STOP;
    return MRD__CONTROL_TYPE__CONTROL_NONE;
}

static bool
has_heard(const Mrd__SessionStatus *st, uint64_t trigger)
{
    for (size_t i = 0; i < st->n_triggers; i++) {
        if (st->triggers[i] == trigger)
            return true;
    }
    return false;
}

/* The first of the last triggers that the node missed, busy or away when all were told, while it
 * still holds something of the window; NULL: none. */
static hub_trigger *
missed_trigger(const hub *h, const hub_session *s, const Mrd__SessionStatus *st)
{
    size_t first = s->n_triggers > TRIGGERS_AGAIN ? s->n_triggers - TRIGGERS_AGAIN : 0;

    if (!s->recorder || s->state != SESSION_RECORDING || st == NULL ||
        st->phase != MRD__NODE_PHASE__NODE_RECORDING)
        return NULL;
    for (size_t i = first; i < s->n_triggers; i++) {
        hub_trigger *t = &s->triggers[i];

        if (t->sent && (s->recorder_ns == 0 || t->to_ns > hub_session_now(h) - s->recorder_ns) &&
            !has_heard(st, t->id))
            return t;
    }
    return NULL;
}

static void
message_trigger(control_message *m, hub_trigger *t)
{
    mrd__trigger__init(&m->trigger);
    m->trigger.id = t->id;
    m->trigger.from_session_ns = m->trigger.from_wall_ns = t->from_ns;
    m->trigger.to_session_ns = m->trigger.to_wall_ns = t->to_ns;
    m->trigger.reason = t->reason;
    m->control.trigger = &m->trigger;
}

unsigned
control_directives(hub *h, const hub_node *n, const Mrd__Heartbeat *hb, control_message *to,
                   unsigned max)
{
    unsigned told = 0;

    for (size_t i = 0; i < h->n_sessions && told < max; i++) {
        hub_session *s = h->sessions[i];
        const Mrd__SessionStatus *st = status_of(hb, s->id);
        hub_trigger *missed = missed_trigger(h, s, st);
        Mrd__ControlType type;

        if (!hub_session_open(s) || s->state == SESSION_ARMING)
            continue;
        type = directive_for(s, n, st);
        if (type == MRD__CONTROL_TYPE__CONTROL_NONE && missed != NULL) {
            message_init(&to[told], s, MRD__CONTROL_TYPE__CONTROL_TRIGGER, 0);
            message_trigger(&to[told++], missed);
        } else if (type != MRD__CONTROL_TYPE__CONTROL_NONE)
            message_init(&to[told++], s, type,
                         type == MRD__CONTROL_TYPE__CONTROL_STOP ? s->stop_ns : s->go_ns);
    }
    for (size_t i = 0; hb != NULL && i < hb->n_sessions && told < max; i++) { /* over, or unknown */
        const Mrd__SessionStatus *st = hb->sessions[i];
        const hub_session *s = hub_session_by_id(h, st->session);

        if ((s != NULL && hub_session_open(s)) || st->phase == MRD__NODE_PHASE__NODE_FLUSHED ||
            st->phase == MRD__NODE_PHASE__NODE_REFUSED)
            continue;
        memset(&to[told], 0, sizeof(to[told]));
        mrd__control__init(&to[told].control);
        to[told].control.type = MRD__CONTROL_TYPE__CONTROL_CANCEL;
        to[told++].control.session = st->session;
    }
    return told;
}

/* The lists of both sides end with the last triggers: what is looked for is found at once. */
void
control_heard(hub_session *s, hub_part *p, const uint64_t *ids, size_t n)
{
    size_t at = s->n_triggers;

    for (size_t i = n; i-- > 0;) {
        size_t k = at;

        while (k > 0 && s->triggers[k - 1].id != ids[i])
            k--;
        if (k == 0)
            continue; /* not in their order, or not ours */
        part_heard(s, p, k - 1);
        at = k - 1;
    }
}

/* ---- Surveys ---- */

typedef struct {
    hub *h;
    uint64_t session;
    unsigned asked, answered;  /* nodes */
    int64_t asked_ns, last_ns; /* aggregator's RAW, of the question and of the last answer */
    uint64_t trigger;          /* its id */
} survey;

/* The lock is not held. */
static bool
on_reply(void *self, mrd_bytes data)
{
    survey *v = self;
    hub *h = v->h;
    hub_session *s;
    hub_part *p;
    const hub_node *n;
    mrd_msg msg;

    if (mrd_msg_unpack(data, &msg, NULL) != MRD_OK)
        return true;
    pthread_mutex_lock(&h->lock);
    s = hub_session_by_id(h, v->session);
    n = msg.frame.type == MRD_FRAME_CONTROL_REPLY
            ? hub_node_by_id(h, msg.u.control_reply->instance_id)
            : NULL;
    if (s != NULL && n != NULL && n->run == msg.u.control_reply->run) {
        const Mrd__ControlReply *r = msg.u.control_reply;

        v->last_ns = mrd_local_now().ns;
        v->answered++;
        p = hub_part_of(s, n->instance_id);
        if (p == NULL && r->selected)
            p = hub_part_add(s, n);
        if (p != NULL && r->type == MRD__CONTROL_TYPE__CONTROL_ARM) {
            bool refused = r->phase == MRD__NODE_PHASE__NODE_REFUSED || r->err != 0;

            p->state = refused ? PART_REFUSED : PART_ARMED;
            p->err = (mrd_err) r->err;
            hub_copy(p->sentence, sizeof(p->sentence), r->sentence);
            hub_clock_take(&p->clock, r->clock);
        }
        if (p != NULL && r->type == MRD__CONTROL_TYPE__CONTROL_TRIGGER && r->err == 0)
            control_heard(s, p, &v->trigger, 1);
        s->dirty = true;
    }
    pthread_mutex_unlock(&h->lock);
    mrd_msg_free(&msg);
    return true;
}

static unsigned
nodes_alive(const hub *h)
{
    unsigned n = 0;

    for (size_t i = 0; i < h->n_nodes; i++)
        n += hub_node_alive(h, h->nodes[i]);
    return n;
}

/* Sends a message to all agents and books their answers. Called with the lock, which is given up
 * while the answers come; the session may be gone afterwards. */
static survey
ask(hub *h, const control_message *m, int timeout_ms)
{
    survey v = { .h = h,
                 .session = m->control.session,
                 .asked = nodes_alive(h),
                 .asked_ns = mrd_local_now().ns,
                 .trigger = m->control.trigger == NULL ? 0 : m->control.trigger->id };
    mrd_buf frame = { 0 };
    mrd_why why = { 0 };

    if (v.asked == 0)
        return v;
    if (message_frame(m, &frame) == MRD_OK) {
        pthread_mutex_unlock(&h->lock);
        if (mrd_server_ask(h->server, (mrd_bytes){ frame.p, frame.len }, v.asked, timeout_ms,
                           on_reply, &v, &why) != MRD_OK)
            mrd_log(MRD_LOG_WARN, "AGG-SURVEY", "Agents could not be asked: reason=%s", why.text);
        pthread_mutex_lock(&h->lock);
    }
    mrd_buf_fini(&frame);
    return v;
}

/* ---- The steps of a session ---- */

static void
mark_missing(hub_session *s, const hub_node *n)
{
    int64_t ago = n->seen_wall_ns == 0 ? 0 : mrd_wall_now().ns - n->seen_wall_ns;
    hub_part *p = hub_part_add(s, n);
    char text[MRD_DUR_TEXT];

    if (p == NULL)
        return;
    p->state = PART_MISSING;
    p->err = MRD_NOTFOUND;
    if (n->seen_wall_ns == 0)
        hub_copy(p->sentence, sizeof(p->sentence),
                 "no agent of this name has connected (meridian nodes)");
    else
        snprintf(p->sentence, sizeof(p->sentence),
                 "not connected when the session began, last heard of %s before",
                 mrd_dur_text(ago < 0 ? 0 : ago / MRD_MS * MRD_MS, text));
}

/* Nodes that are meant and kept silent, or are away. */
static void
mark_absent(hub *h, hub_session *s)
{
    /* Only the node knows whether jobs, ranks or processes of it are meant. */
    bool all = s->select.jobs.n == 0 && s->select.ranks.n == 0 && s->select.processes.n == 0;

    for (size_t i = 0; i < h->n_nodes && all; i++) {
        const hub_node *n = h->nodes[i];
        hub_part *p;

        if (!select_matches(&s->select, n) || hub_part_of(s, n->instance_id) != NULL)
            continue;
        if (!hub_node_alive(h, n)) {
            if (hub_node_expected(h, n) || s->select.instances.n > 0)
                mark_missing(s, n);
            continue;
        }
        if ((p = hub_part_add(s, n)) == NULL)
            continue;
        p->state = PART_REFUSED;
        p->err = MRD_TIMEOUT;
        snprintf(p->sentence, sizeof(p->sentence), "did not answer within %lld ms",
                 (long long) (h->limits.arm_timeout_ns / MRD_MS));
    }
    for (size_t i = 0; i < s->select.instances.n; i++) { /* named, and never seen */
        const char *name = s->select.instances.v[i];
        hub_node absent = { .key = 0 };

        if (!mrd_instance_id_valid(mrd_str_of(name)) || hub_node_by_id(h, name) != NULL ||
            hub_part_of(s, name) != NULL)
            continue;
        hub_copy(absent.instance_id, sizeof(absent.instance_id), name);
        mark_missing(s, &absent);
    }
}

#define NAMED_MAX 3 /* nodes in a sentence */

/* "i-1: why it refuses; i-2 is missing: since when; 5 more are missing". */
static void
say_who(const hub_session *s, part_state state, const char *what, mrd_buf *to)
{
    unsigned n = 0;

    for (size_t i = 0; i < s->n_parts; i++) {
        const hub_part *p = s->parts[i];
        const char *since = strstr(p->sentence, "last heard of");

        if (p->state == state && n++ < NAMED_MAX)
            mrd_buf_fmt(to, "%s%s%s: %.120s", to->len == 0 ? "" : "; ", p->instance_id, what,
                        since == NULL ? p->sentence : since);
    }
    if (n > NAMED_MAX)
        mrd_buf_fmt(to, "; %u more %s", n - NAMED_MAX,
                    state == PART_MISSING ? "are missing" : "are not ready");
}

/* What can be done when some are ready and others not. */
static void
say_remedy(const hub_session *s, unsigned armed, unsigned missing, mrd_buf *to)
{
    const char *away = NULL;

    if (armed == 0)
        return;
    for (size_t i = 0; i < s->n_parts && away == NULL; i++)
        away = s->parts[i]->state == PART_MISSING ? s->parts[i]->instance_id : NULL;
    mrd_buf_fmt(to, ". Go on without: --require %u or any", armed);
    if (away != NULL)
        mrd_buf_fmt(to, "; who will not come back: meridian nodes --forget %s%s", away,
                    missing > 1 ? ",..." : "");
}

/* False, with s->sentence, when too few nodes are ready. Who is missing counts as a node. */
static bool
enough(hub_session *s, unsigned armed, unsigned refused, unsigned missing)
{
    bool all = strcmp(s->require, "all") == 0;
    mrd_buf who = { 0 }, remedy = { 0 };
    char number[32];
    uint64_t want = 1;

    if (all)
        want = armed + refused + missing;
    else if (strcmp(s->require, "any") != 0 && mrd_num_u64(mrd_str_of(s->require), &want) != MRD_OK)
        want = 1;
    if (armed > 0 && armed >= want)
        return true;
    snprintf(number, sizeof(number), "%llu are", (unsigned long long) want);
    say_who(s, PART_REFUSED, "", &who);
    say_who(s, PART_MISSING, " is missing", &who);
    say_remedy(s, armed, missing, &remedy);
    if (armed + refused == 0)
        snprintf(s->sentence, sizeof(s->sentence),
                 "no node took part: check that meridian-agent runs, is connected (meridian nodes) "
                 "and matches the selection%s%.400s",
                 who.len == 0 ? "" : "; ", mrd_buf_cstr(&who));
    else
        snprintf(s->sentence, sizeof(s->sentence),
                 "%u of %u nodes are ready and %s required: %.380s%s", armed,
                 armed + refused + missing,
                 all         ? "all are"
                 : want == 1 ? "one is"
                             : number,
                 who.len == 0 ? "connect more agents" : mrd_buf_cstr(&who),
                 who.len == 0 ? "" : mrd_buf_cstr(&remedy));
    mrd_buf_fini(&who);
    mrd_buf_fini(&remedy);
    return false;
}

/* Called with the lock, which is given up over the disk; the session may be gone afterwards. */
static void
save(hub *h, const hub_session *s)
{
    int64_t before = mrd_local_now().ns;
    char text[MRD_SESSION_TEXT];
    mrd_why why = { 0 };
    uint64_t id = s->id;
    mrd_err err;

    hub_copy(text, sizeof(text), s->text);
    pthread_mutex_unlock(&h->lock);
    err = session_save(h, id, &why);
    pthread_mutex_lock(&h->lock);
    if (err != MRD_OK && !h->manifest_failed) /* said once; it is tried again every second */
        mrd_log(MRD_LOG_ERROR, "AGG-MANIFEST", "Manifest not written: session=%s reason=%s", text,
                why.text);
    h->manifest_failed = err != MRD_OK;
    h->save_ns = mrd_local_now().ns - before;
}

/* What passes between a decision and its arrival at the last node: it is written to disk first, and
 * a thousand nodes do not hear it at once. Both are as slow as they were the last time, or twice.
 */
static mrd_dur_ns
delay(const hub *h, const hub_session *s)
{
    mrd_dur_ns both = 2 * (h->save_ns + s->answer_ns);

    return both < DELAY_MAX ? both : DELAY_MAX;
}

/* What was decided is on disk before anybody is told: a restart goes on from there. The lock is
 * given up; NULL: the session is gone. */
static hub_session *
enter(hub *h, hub_session *s, session_state state)
{
    uint64_t id = s->id;

    s->state = state;
    s->dirty = true;
    save(h, s);
    return hub_session_by_id(h, id);
}

static void
step_fail(hub *h, uint64_t id)
{
    hub_session *s = hub_session_by_id(h, id);
    control_message m;

    if (s == NULL || (s = enter(h, s, SESSION_FAILED)) == NULL)
        return;
    mrd_log(MRD_LOG_WARN, "AGG-SESSION-FAILED", "Session not started: id=%s reason=%s", s->text,
            s->sentence);
    message_init(&m, s, MRD__CONTROL_TYPE__CONTROL_CANCEL, 0);
    ask(h, &m, 500);
    control_message_fini(&m);
}

/*
 * Asks everybody to get ready, and once more when not all have answered after a quarter of the
 * time: the control connection of a node that has just come is made a moment after its data
 * connection, and does not hear the first question. Getting ready twice is the same as once.
 */
static survey
ask_arm(hub *h, const control_message *m)
{
    int timeout_ms = (int) (h->limits.arm_timeout_ns / MRD_MS), first_ms = timeout_ms / 4;
    survey v = ask(h, m, first_ms);

    return v.answered < v.asked ? ask(h, m, timeout_ms - first_ms) : v;
}

static unsigned
parts_in(const hub_session *s, part_state state)
{
    unsigned n = 0;

    for (size_t i = 0; i < s->n_parts; i++)
        n += s->parts[i]->state == state;
    return n;
}

/* The aggregator has just started, and nodes that are known from before may still be on their way:
 * a session that would fail for want of them waits a little. */
static bool
come_back(const hub *h, const hub_session *s)
{
    uint64_t want = UINT64_MAX, alive = 0, away = 0;

    if (mrd_local_now().ns > h->known.opened_ns + COME_BACK_NS)
        return false;
    if (strcmp(s->require, "any") == 0)
        want = 1;
    else if (strcmp(s->require, "all") != 0)
        (void) mrd_num_u64(mrd_str_of(s->require), &want);
    for (size_t i = 0; i < h->n_nodes; i++) {
        const hub_node *n = h->nodes[i];

        if (!select_matches(&s->select, n))
            continue;
        alive += hub_node_alive(h, n);
        away += !hub_node_alive(h, n) && hub_node_expected(h, n);
    }
    return alive < want && away > 0;
}

static void
step_arm(hub *h, hub_session *s)
{
    uint64_t id = s->id;
    unsigned armed, refused;
    control_message m;
    int64_t lead;
    survey v;

    if (s->fresh || mrd_local_now().ns < s->arm_from_ns || come_back(h, s))
        return;
    message_init(&m, s, MRD__CONTROL_TYPE__CONTROL_ARM, 0);
    m.control.deadline_ns = h->limits.arm_timeout_ns + h->limits.lead_ns + 5 * MRD_SEC;
    v = ask_arm(h, &m);
    control_message_fini(&m);
    if ((s = hub_session_by_id(h, id)) == NULL)
        return;
    mark_absent(h, s);
    armed = parts_in(s, PART_ARMED);
    refused = parts_in(s, PART_REFUSED);
    if (!enough(s, armed, refused, parts_in(s, PART_MISSING))) {
        step_fail(h, id);
        return;
    }
    s->answer_ns = v.last_ns > v.asked_ns ? v.last_ns - v.asked_ns : 0;
    lead = h->limits.lead_ns + delay(h, s);
    s->go_ns = hub_session_now(h) + lead;
    if ((s = enter(h, s, SESSION_RECORDING)) == NULL)
        return;
    mrd_log(MRD_LOG_INFO, "AGG-SESSION-GO", "Session starts: id=%s name=%s nodes=%u refused=%u",
            s->text, s->name, armed, refused);
    message_init(&m, s, MRD__CONTROL_TYPE__CONTROL_GO, s->go_ns);
    ask(h, &m, (int) (lead / MRD_MS)); /* who misses it is told by its heartbeat */
    control_message_fini(&m);
}

static mrd_err
trigger_add(hub_session *s, const hub_trigger *t, mrd_why *why)
{
    hub_trigger *v;

    if (s->n_triggers >= HUB_TRIGGERS)
        return mrd_why_set(why, MRD_LIMIT, 0, "session %s was triggered %d times: start a new one",
                           s->text, HUB_TRIGGERS);
    if ((v = realloc(s->triggers, (s->n_triggers + 1) * sizeof(*v))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "trigger");
    s->triggers = v;
    s->triggers[s->n_triggers++] = *t;
    s->dirty = true;
    return MRD_OK;
}

/* Makes one trigger of what nodes saw. */
static void
gather_noted(hub *h, hub_session *s)
{
    hub_trigger t = { .to_ns = hub_session_now(h) };
    mrd_why why = { 0 };

    if (s->noted_at_ns == 0 || t.to_ns < s->noted_at_ns)
        return;
    s->noted_at_ns = 0;
    s->noted_last_ns = t.to_ns;
    t.from_ns = t.to_ns - (s->recorder_ns < NOTED_WINDOW ? s->recorder_ns : NOTED_WINDOW);
    mrd_random(&t.id, sizeof(t.id));
    hub_copy(t.reason, sizeof(t.reason), s->noted);
    if (trigger_add(s, &t, &why) != MRD_OK)
        mrd_log(MRD_LOG_WARN, "AGG-TRIGGER", "Trigger not taken: session=%s reason=%s", s->text,
                why.text);
    else
        mrd_log(MRD_LOG_INFO, "AGG-TRIGGER", "Flight recorder frozen: session=%s reason=%s",
                s->text, t.reason);
}

/* Tells all nodes about the first trigger that they do not know. False: there was none. */
static bool
step_trigger(hub *h, hub_session *s)
{
    hub_trigger told; /* the session may go while nodes are asked */
    uint64_t id = s->id;
    control_message m;
    size_t at = 0;

    while (at < s->n_triggers && s->triggers[at].sent)
        at++;
    if (at == s->n_triggers)
        return false;
    s->triggers[at].sent = true;
    save(h, s);
    if ((s = hub_session_by_id(h, id)) == NULL)
        return true;
    told = s->triggers[at];
    message_init(&m, s, MRD__CONTROL_TYPE__CONTROL_TRIGGER, 0);
    message_trigger(&m, &told);
    ask(h, &m, 1000); /* who misses it is told with its heartbeats */
    control_message_fini(&m);
    return true;
}

/* A session that is too large is stopped as if somebody had asked for it: what its nodes hold still
 * comes. */
static void
bound_size(hub *h, hub_session *s)
{
    if (h->limits.session_bytes == 0 || s->stop_wanted ||
        keep_bytes(s) + s->artifact_bytes <= (uint64_t) h->limits.session_bytes)
        return;
    s->stop_wanted = s->dirty = true;
    h->stats.limited[LIMIT_SESSION_SIZE]++;
    snprintf(s->sentence, sizeof(s->sentence),
             "stopped: it reached the %lld MB that --session-size allows",
             (long long) (h->limits.session_bytes / 1000000));
    mrd_log(MRD_LOG_WARN, "AGG-SESSION-SIZE", "Session is stopped: id=%s reason=%s", s->text,
            s->sentence);
}

static void
step_record(hub *h, hub_session *s)
{
    int64_t now = hub_session_now(h), end = s->go_ns + s->duration_ns;
    control_message m;

    gather_noted(h, s);
    bound_size(h, s);
    if (step_trigger(h, s))
        return;
    if (!s->stop_wanted && (s->duration_ns == 0 || now < end - h->limits.lead_ns - delay(h, s)))
        return;
    s->stop_ns = s->stop_wanted ? now + h->limits.lead_ns / 4 + delay(h, s) : end;
    if (s->stop_ns < s->go_ns)
        s->stop_ns = s->go_ns;
    s->flush_deadline_ns = mrd_local_now().ns + (s->stop_ns - now) + h->limits.flush_timeout_ns;
    if ((s = enter(h, s, SESSION_STOPPING)) == NULL)
        return;
    message_init(&m, s, MRD__CONTROL_TYPE__CONTROL_STOP, s->stop_ns);
    ask(h, &m, 1000);
    control_message_fini(&m);
}

/* Done when every part is flushed or given up. */
static void
step_stop(hub *h, hub_session *s)
{
    bool late = mrd_local_now().ns > s->flush_deadline_ns;

    for (size_t i = 0; i < s->n_parts; i++) {
        hub_part *p = s->parts[i];
        const hub_node *n = hub_node_by_id(h, p->instance_id);

        if (p->state == PART_FLUSHED || p->state == PART_REFUSED || p->state == PART_LOST ||
            p->state == PART_MISSING)
            continue;
        if (!late)
            return;
        p->state = PART_LOST;
        if (n != NULL) /* else it was forgotten, which noted it */
            p->lost_wall_ns = n->seen_wall_ns;
        snprintf(p->sentence, sizeof(p->sentence), "%s before everything had arrived",
                 n != NULL && hub_node_alive(h, n)
                     ? "still shipping when the time to flush was over"
                     : "not heard of any more");
        mrd_log(MRD_LOG_WARN, "AGG-NODE-LOST", "Node given up: session=%s node=%s reason=%s",
                s->text, p->instance_id, p->sentence);
    }
    enter(h, s, SESSION_MERGING);
}

static void
step_merge(hub *h, hub_session *s)
{
    job_status job;
    mrd_why why = { 0 };

    if (!s->closed)
        return; /* the ingest thread closes the journals first */
    if (s->auto_merge && !merger_status(s, &job)) {
        if (merger_start(h, s, &why) != MRD_OK) {
            hub_copy(s->sentence, sizeof(s->sentence), why.text);
            enter(h, s, SESSION_COMPLETE);
        }
        return;
    }
    if (s->auto_merge && (job.state == JOB_WAITING || job.state == JOB_RUNNING))
        return;
    if ((s = enter(h, s, SESSION_COMPLETE)) != NULL)
        mrd_log(MRD_LOG_INFO, "AGG-SESSION-DONE", "Session complete: id=%s", s->text);
}

static void
step(hub *h, hub_session *s)
{
    switch (s->state) {
    case SESSION_ARMING:
        step_arm(h, s);
        break;
    case SESSION_RECORDING:
        step_record(h, s);
        break;
    case SESSION_STOPPING:
        step_stop(h, s);
        break;
    case SESSION_MERGING:
        step_merge(h, s);
        break;
    default:
        break;
    }
}

/* ---- Manifests ---- */

/* The list may change meanwhile: a session that is passed over is met the next time. */
static void
save_dirty(hub *h)
{
    for (size_t i = 0; i < h->n_sessions; i++) {
        const hub_session *s = h->sessions[i];

        if (s->dirty && !s->deleted && !s->fresh)
            save(h, s);
    }
}

static void
wait_step(hub *h)
{
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += STEP_MS * 1000000L;
    if (end.tv_nsec >= 1000000000L) {
        end.tv_nsec -= 1000000000L;
        end.tv_sec++;
    }
    pthread_cond_timedwait(&h->changed, &h->lock, &end);
}

static void *
control_run(void *arg)
{
    control *c = arg;
    hub *h = c->h;

    pthread_mutex_lock(&h->lock);
    while (!c->closing) {
        int64_t now = mrd_local_now().ns;

        for (size_t i = 0; i < h->n_sessions && !c->closing; i++) {
            if (!h->sessions[i]->deleted)
                step(h, h->sessions[i]); /* may give the lock up: the list may change */
        }
        if (now >= c->next_save_ns) {
            c->next_save_ns = now + SAVE_NS;
            save_dirty(h);
            known_save(h, false);
        }
        if (now >= c->next_retain_ns) {
            c->next_retain_ns = now + RETAIN_NS;
            keep_retain(h, mrd_wall_now().ns);
        }
        if (!c->closing)
            wait_step(h);
    }
    save_dirty(h);
    known_save(h, true);
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

mrd_err
control_open(hub *h, control **ret_control, mrd_why *why)
{
    control *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "control");
    c->h = h;
    if ((errno = pthread_create(&c->thread, NULL, control_run, c)) != 0) {
        mrd_why_set(why, MRD_IO, errno, "cannot start the control thread");
        free(c);
        return MRD_IO;
    }
    *ret_control = c;
    return MRD_OK;
}

void
control_close(control *c)
{
    if (c == NULL)
        return;
    pthread_mutex_lock(&c->h->lock);
    c->closing = true;
    pthread_cond_broadcast(&c->h->changed);
    pthread_mutex_unlock(&c->h->lock);
    pthread_join(c->thread, NULL);
    free(c);
}

/* ---- Wishes ---- */

mrd_err
control_stop(hub *h, uint64_t id, mrd_why *why)
{
    mrd_err err = MRD_OK;
    hub_session *s;

    pthread_mutex_lock(&h->lock);
    s = hub_session_by_id(h, id);
    if (s == NULL)
        err = mrd_why_set(why, MRD_NOTFOUND, 0, "there is no such session");
    else if (s->state > SESSION_RECORDING && s->state != SESSION_STOPPING)
        err = mrd_why_set(why, MRD_STATE, 0, "session %s is %s already", s->text,
                          session_state_text(s->state));
    else
        s->stop_wanted = true;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    return err != MRD_OK ? err : session_save(h, id, why);
}

void
control_noted(hub *h, const hub_node *n, const char *reason)
{
    int64_t now = hub_session_now(h);

    for (size_t i = 0; i < h->n_sessions; i++) {
        hub_session *s = h->sessions[i];

        if (s->deleted || !s->recorder || s->state != SESSION_RECORDING || s->noted_at_ns != 0 ||
            hub_part_of(s, n->instance_id) == NULL)
            continue;
        s->noted_at_ns = now + NOTED_GATHER;
        if (s->noted_last_ns != 0 && s->noted_at_ns < s->noted_last_ns + NOTED_PERIOD)
            s->noted_at_ns = s->noted_last_ns + NOTED_PERIOD;
        snprintf(s->noted, sizeof(s->noted), "%.100s: %.150s", n->instance_id, reason);
    }
}

mrd_err
control_trigger(hub *h, uint64_t id, mrd_dur_ns last_ns, const char *reason, uint64_t *ret_trigger,
                mrd_why *why)
{
    hub_trigger t = { .to_ns = hub_session_now(h) };
    uint64_t *ids;
    mrd_err err = MRD_OK;
    size_t n = 0;

    mrd_random(&t.id, sizeof(t.id));
    t.from_ns = t.to_ns - last_ns;
    hub_copy(t.reason, sizeof(t.reason), reason);
    pthread_mutex_lock(&h->lock);
    if ((ids = calloc(h->n_sessions + 1, sizeof(*ids))) == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "trigger");
    for (size_t i = 0; i < h->n_sessions && err == MRD_OK; i++) {
        hub_session *s = h->sessions[i];

        if (s->deleted || !s->recorder || s->state != SESSION_RECORDING || (id != 0 && s->id != id))
            continue;
        ids[n++] = s->id;
        err = trigger_add(s, &t, why);
    }
    if (n == 0 && err == MRD_OK)
        err = mrd_why_set(why, MRD_STATE, 0,
                          "no recorder session is running%s: start one with --mode recorder",
                          id == 0 ? "" : " under this id");
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    for (size_t i = 0; i < n && err == MRD_OK; i++)
        err = session_save(h, ids[i], why);
    free(ids);
    if (err == MRD_OK)
        *ret_trigger = t.id;
    return err;
}
