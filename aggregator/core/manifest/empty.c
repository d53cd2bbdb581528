/* How much there was to record on each node, and why a finished session contains only counters. */
#include "aggregator/core/manifest/empty.h"

#include <inttypes.h>
#include <stdio.h>

#include "aggregator/core/common/json.h"
#include "aggregator/core/common/text.h"
#include "base/obj.h"
#include "trace/model/catalog.h"

static mrd_tally_events
plus(const mrd_tally_events *a, const mrd_tally_events *b)
{
    return (mrd_tally_events){ a->chosen + b->chosen, a->left_out + b->left_out,
                               a->in_flight + b->in_flight };
}

static mrd_json *
events_json(mrd_json *o, const mrd_tally_events *e)
{
    mrd_json_set(o, "chosen", mrd_json_new_count(e->chosen));
    mrd_json_set(o, "left_out", mrd_json_new_count(e->left_out));
    mrd_json_set(o, "in_flight", mrd_json_new_count(e->in_flight));
    return o;
}

static mrd_tally_events
events_load(const mrd_json *o)
{
    return (mrd_tally_events){ (uint64_t) mrd_json_int(o, "chosen", 0),
                               (uint64_t) mrd_json_int(o, "left_out", 0),
                               (uint64_t) mrd_json_int(o, "in_flight", 0) };
}

static unsigned
max_of(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

/* A count that is less than before comes from another run of the agent. */
void
mrd_part_tally(mrd_part *p, const Mrd__SessionTally *tally)
{
    mrd_tally *t = &p->tally;

    if (tally == NULL)
        return;
    if (tally->chosen < t->last.chosen || tally->left_out < t->last.left_out ||
        tally->in_flight < t->last.in_flight) {
        t->before = plus(&t->before, &t->last);
        t->unselected_before = max_of(t->unselected_before, t->unselected);
    }
    t->known = true;
    t->last = (mrd_tally_events){ tally->chosen, tally->left_out, tally->in_flight };
    t->running = tally->running;
    t->processes = max_of(tally->processes, t->processes);
    t->selected = max_of(tally->selected, t->selected);
    t->unselected = tally->unselected;
    if (t->unselected >= t->unselected_before)
        mrd_text_set(t->unselected_one, sizeof(t->unselected_one), tally->unselected_one);
}

static unsigned
count_unselected(const mrd_part *p)
{
    return max_of(p->tally.unselected, p->tally.unselected_before);
}

bool
mrd_part_unselected_text(const mrd_part *p, char text[MRD_WHY_MAX])
{
    const char *one = p->tally.unselected_one;
    unsigned n = count_unselected(p);

    if (n == 0)
        return false;
    snprintf(text, MRD_WHY_MAX, "%u process%s ran there that no session selected%s%s", n,
             n == 1 ? "" : "es", one[0] == '\0' ? "" : ", such as ", one);
    return true;
}

static void
put_unselected(const mrd_part *p, mrd_json *to)
{
    char text[MRD_WHY_MAX];
    mrd_json *o;

    if (!mrd_part_unselected_text(p, text))
        return;
    o = mrd_json_new_object();
    mrd_json_set(o, "processes", mrd_json_new_int(count_unselected(p)));
    if (p->tally.unselected_one[0] != '\0')
        mrd_json_set(o, "one", mrd_json_new_str(p->tally.unselected_one));
    mrd_json_set(o, "message", mrd_json_new_str(text));
    mrd_json_set(to, "unselected", o);
}

mrd_json *
mrd_part_tally_json(const mrd_part *p)
{
    const mrd_tally *t = &p->tally;
    mrd_tally_events all = plus(&t->before, &t->last);
    mrd_json *o = events_json(mrd_json_new_object(), &all);

    if (t->before.chosen > 0 || t->before.left_out > 0)
        mrd_json_set(o, "earlier_runs", events_json(mrd_json_new_object(), &t->before));
    mrd_json_set(o, "processes", mrd_json_new_int(t->processes));
    mrd_json_set(o, "selected", mrd_json_new_int(t->selected));
    mrd_json_set(o, "running", mrd_json_new_int(t->running));
    put_unselected(p, o);
    return o;
}

/* Limits the difference to 0, because a changed manifest may contain any number. */
static uint64_t
rest(uint64_t all, uint64_t before)
{
    return all > before ? all - before : 0;
}

void
mrd_part_tally_load(mrd_part *p, const mrd_json *o)
{
    const mrd_json *unselected = mrd_json_get(o, "unselected");
    mrd_tally *t = &p->tally;

    if (o == NULL)
        return;
    *t = (mrd_tally){ .known = true,
                      .before = events_load(mrd_json_get(o, "earlier_runs")),
                      .last = events_load(o),
                      .processes = mrd_json_get_u32(o, "processes"),
                      .selected = mrd_json_get_u32(o, "selected"),
                      .unselected_before = mrd_json_get_u32(unselected, "processes") };
    mrd_text_set(t->unselected_one, sizeof(t->unselected_one), mrd_json_str(unselected, "one", ""));
    t->last.chosen = rest(t->last.chosen, t->before.chosen);
    t->last.left_out = rest(t->last.left_out, t->before.left_out);
    t->last.in_flight = rest(t->last.in_flight, t->before.in_flight);
}

/* Returns true if the session selected counters by name and has some, or selected nothing else. */
static bool
wants_counters(const mrd_session *session, uint64_t events)
{
    const mrd_select *s = &session->select;

    if (session->params.counters.n > 0 && events > 0)
        return true;
    for (size_t i = 0; i < s->sources.n; i++) {
        if (strcmp(s->sources.v[i], mrd_source_text(MRD_SRC_HOST)) != 0 &&
            strcmp(s->sources.v[i], mrd_source_text(MRD_SRC_DEVCTR)) != 0)
            return false;
    }
    return s->sources.n > 0;
}

typedef struct {
    uint64_t events, chosen, left_out, dropped;
    unsigned processes, selected;
    bool known;
} sums;

static sums
sum(const mrd_session *s)
{
    sums all = { .known = true };

    for (size_t i = 0; i < s->n_parts; i++) {
        const mrd_part *p = s->parts[i];

        all.known = all.known && p->tally.known;
        all.events += p->events;
        all.chosen += p->tally.before.chosen + p->tally.last.chosen;
        all.left_out += p->tally.before.left_out + p->tally.last.left_out;
        all.processes += p->tally.processes;
        all.selected += p->tally.selected;
        all.dropped += mrd_part_lost(p) - mrd_counts_unwanted(&p->counts);
    }
    return all;
}

static const char *
processes_by(const mrd_select *s)
{
    return s->jobs.n > 0      ? "job"
           : s->ranks.n > 0   ? "ranks"
           : s->sources.n > 0 ? "sources"
                              : "processes";
}

/* Returns the filter that excludes events of selected processes. It is named before the filters
 * that exclude processes. */
static const char *
events_by(const mrd_session *s)
{
    return s->select.types.n > 0                              ? "event types"
           : s->select.cores.n > 0                            ? "cores"
           : s->params.from_step > 0 || s->params.to_step > 0 ? "steps"
                                                              : processes_by(&s->select);
}

/* Writes the selected processes: ": no process of the selected job 4711 was there". Writes "" if
 * all processes were selected. */
static void
who_was_meant(const mrd_select *s, char *to, size_t room)
{
    const mrd_strlist *of = s->jobs.n > 0 ? &s->jobs : &s->ranks;

    *to = '\0';
    if (of->n == 1)
        snprintf(to, room, ": no process of the selected %s %s was there",
                 s->jobs.n > 0 ? "job" : "rank", of->v[0]);
    else if (of->n > 1)
        snprintf(to, room, ": no process of the selected %s was there",
                 s->jobs.n > 0 ? "jobs" : "ranks");
}

bool
mrd_session_is_empty(const mrd_session *s, char text[MRD_WHY_MAX])
{
    char who[160];
    sums all;

    if ((s->state != MRD_SESSION_MERGING && s->state != MRD_SESSION_COMPLETE) ||
        s->n_artifacts > 0) /* files are something */
        return false;
    all = sum(s);
    if (wants_counters(s, all.events))
        return false;
    /* A flight recorder records the events of its memory when it sends them. */
    if (all.known && !mrd_session_is_recorder(s) ? all.chosen > 0 : all.events > 0)
        return false;
    who_was_meant(&s->select, who, sizeof(who));
    if (s->n_parts == 0)
        snprintf(text, MRD_WHY_MAX, "no node took part%s", who);
    else if (mrd_session_is_recorder(s) && s->n_triggers == 0)
        snprintf(text, MRD_WHY_MAX, "no trigger asked for a window of this flight recorder");
    else if (all.dropped > 0)
        snprintf(text, MRD_WHY_MAX, "all events were lost: %" PRIu64 " event%s", all.dropped,
                 mrd_plural(all.dropped));
    else if (!all.known)
        snprintf(text, MRD_WHY_MAX, "no node sent an event");
    else if (all.processes == 0)
        snprintf(text, MRD_WHY_MAX,
                 "no process recorded: check that libmeridian.so is loaded into the programs "
                 "(LD_PRELOAD, MERIDIAN_ENABLE=1), and that they use the agent's ring directory");
    else if (all.selected == 0)
        snprintf(text, MRD_WHY_MAX, "none of %u process%s is of the selected %s", all.processes,
                 all.processes == 1 ? "" : "es", processes_by(&s->select));
    else if (all.left_out > 0)
        snprintf(text, MRD_WHY_MAX, "none of %" PRIu64 " event%s is of the selected %s",
                 all.left_out, mrd_plural(all.left_out), events_by(s));
    else
        snprintf(text, MRD_WHY_MAX, "%u process%s selected and recorded no event", all.selected,
                 all.selected == 1 ? " was" : "es were");
    return true;
}
