/* The status of a node's part in a heartbeat: its phase, its times, its device profiles, and its
 * counts. */
#include <string.h>

#include "aggregator/core/common/text.h"
#include "aggregator/core/node/part.h"
#include "base/num.h"
#include "base/obj.h"

/* Returns one of the states of the protocol. Other values of a node become unknown. */
static const char *
profile_state(const char *state)
{
    static const char *const known[] = { "asked", "armed", "written", "refused", "ended" };

    for (size_t i = 0; i < MRD_COUNT(known); i++) {
        if (strcmp(state, known[i]) == 0)
            return known[i];
    }
    return "refused";
}

/* The agent repeats all of them in each heartbeat. A session without requested profiles has none. */
static void
take_profiles(mrd_part *p, const Mrd__SessionStatus *st)
{
    mrd_json *list;

    if (st->n_device_profiles == 0)
        return;
    list = mrd_json_new_array();
    for (size_t i = 0; i < st->n_device_profiles && i < MRD_PROFILES_MAX; i++) {
        const Mrd__DeviceProfile *d = st->device_profiles[i];
        mrd_json *o = mrd_json_new_object();
        char message[MRD_TEXT_MAX];

        mrd_json_set(o, "process_id", mrd_json_new_int(d->process_id));
        if (d->nc_idx >= 0)
            mrd_json_set(o, "lnc_idx", mrd_json_new_int(d->nc_idx));
        mrd_json_set(o, "state", mrd_json_new_str(profile_state(d->state)));
        mrd_json_set(o, "written", mrd_json_new_int(d->count));
        mrd_text_set(message, sizeof(message), d->message);
        if (*message != '\0')
            mrd_json_set(o, "message", mrd_json_new_str(message));
        mrd_json_append(list, o);
    }
    mrd_json_free(p->device_profiles);
    p->device_profiles = list;
}

static void
take_phase(mrd_part *p, const Mrd__SessionStatus *st)
{
    switch (st->phase) {
    case MRD__NODE_PHASE__NODE_ARMED:
        p->state = MRD_PART_ARMED;
        break;
    case MRD__NODE_PHASE__NODE_RECORDING:
        /* the node did not answer the survey, or was away */
        if (p->state == MRD_PART_REFUSED || p->state == MRD_PART_MISSING)
            mrd_text_set(p->message, sizeof(p->message), "joined late");
        p->err = MRD_OK;
        p->state = MRD_PART_RECORDING;
        break;
    case MRD__NODE_PHASE__NODE_STOPPING:
        p->state = MRD_PART_STOPPING;
        break;
    case MRD__NODE_PHASE__NODE_FLUSHED:
        p->state = MRD_PART_FLUSHED;
        break;
    case MRD__NODE_PHASE__NODE_REFUSED:
        p->state = MRD_PART_REFUSED;
        p->err = st->err == 0 ? MRD_INVALID : mrd_err_of(st->err);
        mrd_text_set(p->message, sizeof(p->message), st->message);
        break;
    default:
        break;
    }
    if (p->state != MRD_PART_LOST)
        p->lost.ns = 0;
}

/* Handles the time at which an agent without a saved state joined. The node recorded before that
 * time. Events that the previous agent had not read waited in the rings, and losses are counted. */
static void
take_held(mrd_part *p, const mrd_node *n, const Mrd__SessionStatus *st)
{
    mrd_local_ns first = { mrd_time_checked(st->recorder_first_ns) };
    bool is_sane = first.ns > 0 && first.ns <= n->counted.ns;

    p->held =
        (mrd_held){ mrd_count_checked(st->recorder_bytes), is_sane ? n->counted.ns - first.ns : 0 };
}

static bool
began_before(const mrd_part *p, const mrd_node *n, const Mrd__SessionStatus *st)
{
    return p->started.ns != 0 && p->started.ns < st->started_local_ns &&
           strcmp(p->boot_id, n->boot_id) == 0;
}

void
mrd_part_heartbeat(mrd_part *p, const mrd_node *n, const Mrd__SessionStatus *st, bool with_profiles)
{
    /* A time after the node's own present cannot be complete. */
    int64_t complete = mrd_time_checked(st->complete_local_ns);
    bool same_boot = strcmp(p->boot_id, n->boot_id) == 0;
    mrd_part_epoch *e;

    if (n->counted.ns != 0 && complete > n->counted.ns)
        complete = n->counted.ns;
    if (st->revision > 0 && p->unchangeable != 0) { /* the agent was replaced by a newer one */
        p->unchangeable = 0;
        mrd_text_set(p->message, sizeof(p->message), "");
    }
    if (st->revision > p->revision)
        p->revision = st->revision;
    mrd_part_count(p, n->epoch, same_boot ? n->counted : (mrd_local_ns){ 0 }, st->counters);
    if (st->started_local_ns != 0 && !began_before(p, n, st)) {
        p->started.ns = mrd_time_checked(st->started_local_ns);
        p->start_bound =
            mrd_time_sane(st->start_bound_ns) && st->start_bound_ns >= 0 ? st->start_bound_ns : -1;
    }
    if (st->stopped_local_ns != 0)
        p->stopped.ns = mrd_time_checked(st->stopped_local_ns);
    if (complete > p->complete.ns)
        p->complete.ns = complete;
    p->clock = n->clock;
    if (n->has_reading) { /* none since our start yet: keep the reading of the manifest */
        p->has_reading = true;
        p->reading = n->reading;
    }
    take_held(p, n, st);
    if (with_profiles)
        take_profiles(p, st);
    if (st->models != NULL) {
        mrd_node_models *models = mrd_node_models_new(st->models, p->local, p->wall);

        if (models != NULL)
            mrd_node_models_unref(p->models);
        p->models = models != NULL ? models : p->models;
    }
    if (st->last_seq > 0 && (e = mrd_part_epoch_of(p, n->epoch)) != NULL && st->last_seq > e->end)
        e->end = st->last_seq;
    take_phase(p, st);
}
