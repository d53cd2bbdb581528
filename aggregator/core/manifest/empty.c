/* Counts how many events each node had to record (its tally), and stores these numbers in the
 * manifest. Explains why a finished session has no events except samples of counters. */
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
events_json(mrd_json *json, const mrd_tally_events *events)
{
    mrd_json_set(json, "chosen", mrd_json_new_count(events->chosen));
    mrd_json_set(json, "left_out", mrd_json_new_count(events->left_out));
    mrd_json_set(json, "in_flight", mrd_json_new_count(events->in_flight));
    return json;
}

static mrd_tally_events
events_load(const mrd_json *json)
{
    return (mrd_tally_events){ (uint64_t) mrd_json_int(json, "chosen", 0),
                               (uint64_t) mrd_json_int(json, "left_out", 0),
                               (uint64_t) mrd_json_int(json, "in_flight", 0) };
}

static unsigned
max_of(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

/* Takes the numbers of events from a heartbeat. A number that is lower than in the previous
 * heartbeat shows that the agent was restarted. Then the numbers of the previous heartbeat are
 * added to the sums in `before`. */
void
mrd_part_tally(mrd_part *part, const Mrd__SessionTally *tally)
{
    mrd_tally *t = &part->tally;

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
count_unselected(const mrd_part *part)
{
    return max_of(part->tally.unselected, part->tally.unselected_before);
}

bool
mrd_part_unselected_text(const mrd_part *part, char text[MRD_WHY_MAX])
{
    const char *one = part->tally.unselected_one;
    unsigned n = count_unselected(part);

    if (n == 0)
        return false;
    snprintf(text, MRD_WHY_MAX, "%u process%s ran there that no session selected%s%s", n,
             n == 1 ? "" : "es", one[0] == '\0' ? "" : ", such as ", one);
    return true;
}

static void
put_unselected(const mrd_part *part, mrd_json *to)
{
    char text[MRD_WHY_MAX];
    mrd_json *json;

    if (!mrd_part_unselected_text(part, text))
        return;
    json = mrd_json_new_object();
    mrd_json_set(json, "processes", mrd_json_new_int(count_unselected(part)));
    if (part->tally.unselected_one[0] != '\0')
        mrd_json_set(json, "one", mrd_json_new_str(part->tally.unselected_one));
    mrd_json_set(json, "message", mrd_json_new_str(text));
    mrd_json_set(to, "unselected", json);
}

mrd_json *
mrd_part_tally_json(const mrd_part *part)
{
    const mrd_tally *tally = &part->tally;
    mrd_tally_events all = plus(&tally->before, &tally->last);
    mrd_json *json = events_json(mrd_json_new_object(), &all);

    if (tally->before.chosen > 0 || tally->before.left_out > 0)
        mrd_json_set(json, "earlier_runs", events_json(mrd_json_new_object(), &tally->before));
    mrd_json_set(json, "processes", mrd_json_new_int(tally->processes));
    mrd_json_set(json, "selected", mrd_json_new_int(tally->selected));
    mrd_json_set(json, "running", mrd_json_new_int(tally->running));
    put_unselected(part, json);
    return json;
}

/* Returns all - before, or 0 if `before` is larger. A manifest that was edited by hand can contain
 * any numbers. */
static uint64_t
rest(uint64_t all, uint64_t before)
{
    return all > before ? all - before : 0;
}

void
mrd_part_tally_load(mrd_part *part, const mrd_json *json)
{
    const mrd_json *unselected = mrd_json_get(json, "unselected");
    mrd_tally *tally = &part->tally;

    if (json == NULL)
        return;
    *tally = (mrd_tally){ .known = true,
                          .before = events_load(mrd_json_get(json, "earlier_runs")),
                          .last = events_load(json),
                          .processes = mrd_json_get_u32(json, "processes"),
                          .selected = mrd_json_get_u32(json, "selected"),
                          .unselected_before = mrd_json_get_u32(unselected, "processes") };
    mrd_text_set(tally->unselected_one, sizeof(tally->unselected_one),
                 mrd_json_str(unselected, "one", ""));
    tally->last.chosen = rest(tally->last.chosen, tally->before.chosen);
    tally->last.left_out = rest(tally->last.left_out, tally->before.left_out);
    tally->last.in_flight = rest(tally->last.in_flight, tally->before.in_flight);
}

/* Returns true if the user wanted only counters: counters were selected by name and recorded, or
 * only sources of counters were selected. */
static bool
wants_counters(const mrd_session *session, uint64_t events)
{
    const mrd_select *selection = &session->select;

    if (session->params.counters.n > 0 && events > 0)
        return true;
    for (size_t i = 0; i < selection->sources.n; i++) {
        if (strcmp(selection->sources.v[i], mrd_source_text(MRD_SRC_HOST)) != 0 &&
            strcmp(selection->sources.v[i], mrd_source_text(MRD_SRC_DEVCTR)) != 0)
            return false;
    }
    return selection->sources.n > 0;
}

typedef struct {
    uint64_t events, chosen, left_out, dropped;
    unsigned processes, selected;
    bool known;
} sums;

static sums
sum(const mrd_session *session)
{
    sums all = { .known = true };

    for (size_t i = 0; i < session->n_parts; i++) {
        const mrd_part *part = session->parts[i];

        all.known = all.known && part->tally.known;
        all.events += part->events;
        all.chosen += part->tally.before.chosen + part->tally.last.chosen;
        all.left_out += part->tally.before.left_out + part->tally.last.left_out;
        all.processes += part->tally.processes;
        all.selected += part->tally.selected;
        all.dropped += mrd_part_lost(part) - mrd_counts_unwanted(&part->counts);
    }
    return all;
}

static const char *
processes_by(const mrd_select *selection)
{
    return selection->jobs.n > 0      ? "job"
           : selection->ranks.n > 0   ? "ranks"
           : selection->sources.n > 0 ? "sources"
                                      : "processes";
}

/* Returns the name of the filter that excluded the events. A filter of events, such as cores, is
 * preferred over a filter of processes, such as ranks. */
static const char *
events_by(const mrd_session *session)
{
    return session->select.types.n > 0   ? "event types"
           : session->select.cores.n > 0 ? "cores"
           : session->params.from_step > 0 || session->params.to_step > 0
               ? "steps"
               : processes_by(&session->select);
}

/* Writes the end of a message about the selected job or ranks, such as ": no process of the
 * selected job 4711 was there". Writes "" if neither is selected. */
static void
who_was_meant(const mrd_select *selection, char *to, size_t room)
{
    const mrd_strlist *of = selection->jobs.n > 0 ? &selection->jobs : &selection->ranks;

    *to = '\0';
    if (of->n == 1)
        snprintf(to, room, ": no process of the selected %s %s was there",
                 selection->jobs.n > 0 ? "job" : "rank", of->v[0]);
    else if (of->n > 1)
        snprintf(to, room, ": no process of the selected %s was there",
                 selection->jobs.n > 0 ? "jobs" : "ranks");
}

bool
mrd_session_is_empty(const mrd_session *session, char text[MRD_WHY_MAX])
{
    char who[160];
    sums all;

    if ((session->state != MRD_SESSION_MERGING && session->state != MRD_SESSION_COMPLETE) ||
        session->n_artifacts > 0) /* a session with files is not empty */
        return false;
    all = sum(session);
    if (wants_counters(session, all.events))
        return false;
    /* for a flight recorder, only events that were sent count, because it discards all others */
    if (all.known && !mrd_session_is_recorder(session) ? all.chosen > 0 : all.events > 0)
        return false;
    who_was_meant(&session->select, who, sizeof(who));
    if (session->n_parts == 0)
        snprintf(text, MRD_WHY_MAX, "no node took part%s", who);
    else if (mrd_session_is_recorder(session) && session->n_triggers == 0)
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
                 all.processes == 1 ? "" : "es", processes_by(&session->select));
    else if (all.left_out > 0)
        snprintf(text, MRD_WHY_MAX, "none of %" PRIu64 " event%s is of the selected %s",
                 all.left_out, mrd_plural(all.left_out), events_by(session));
    else
        snprintf(text, MRD_WHY_MAX, "%u process%s selected and recorded no event", all.selected,
                 all.selected == 1 ? " was" : "es were");
    return true;
}
