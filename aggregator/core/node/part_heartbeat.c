/* Takes the status of a node's part from a heartbeat: phase, times, device profiles and counts. */
#include <string.h>

#include "aggregator/core/common/text.h"
#include "aggregator/core/node/part.h"
#include "base/num.h"
#include "base/obj.h"

/* Returns the state of a device profile as a static string; "unknown" for another text. Only agents
 * of another version send other states. */
static const char *
profile_state(const char *state)
{
    static const char *const known[] = { "asked", "armed", "written", "refused", "ended" };

    for (size_t i = 0; i < MRD_COUNT(known); i++) {
        if (strcmp(state, known[i]) == 0)
            return known[i];
    }
    return "unknown";
}

/* Takes the states of the requested device profiles from a heartbeat. The agent repeats all of them
 * in each heartbeat. */
static void
take_profiles(mrd_part *part, const Mrd__SessionStatus *st)
{
    mrd_json *list;

    if (st->n_device_profiles == 0)
        return;
    list = mrd_json_new_array();
    for (size_t i = 0; i < st->n_device_profiles && i < MRD_PROFILES_MAX; i++) {
        const Mrd__DeviceProfile *profile = st->device_profiles[i];
        mrd_json *json = mrd_json_new_object();
        char message[MRD_TEXT_MAX];

        mrd_json_set(json, "process_id", mrd_json_new_int(profile->process_id));
        if (profile->nc_idx >= 0)
            mrd_json_set(json, "lnc_idx", mrd_json_new_int(profile->nc_idx));
        mrd_json_set(json, "state", mrd_json_new_str(profile_state(profile->state)));
        mrd_json_set(json, "written", mrd_json_new_int(profile->count));
        mrd_text_set(message, sizeof(message), profile->message);
        if (*message != '\0')
            mrd_json_set(json, "message", mrd_json_new_str(message));
        mrd_json_append(list, json);
    }
    mrd_json_free(part->device_profiles);
    part->device_profiles = list;
}

static void
take_phase(mrd_part *part, const Mrd__SessionStatus *st)
{
    switch (st->phase) {
    case MRD__NODE_PHASE__NODE_ARMED:
        part->state = MRD_PART_ARMED;
        break;
    case MRD__NODE_PHASE__NODE_RECORDING:
        /* the node counted as refused or missing, because it was disconnected or did not answer the
         * survey in time */
        if (part->state == MRD_PART_REFUSED || part->state == MRD_PART_MISSING)
            mrd_text_set(part->message, sizeof(part->message), "joined late");
        part->err = MRD_OK;
        part->state = MRD_PART_RECORDING;
        break;
    case MRD__NODE_PHASE__NODE_STOPPING:
        part->state = MRD_PART_STOPPING;
        break;
    case MRD__NODE_PHASE__NODE_FLUSHED:
        part->state = MRD_PART_FLUSHED;
        break;
    case MRD__NODE_PHASE__NODE_REFUSED:
        part->state = MRD_PART_REFUSED;
        part->err = st->err == 0 ? MRD_INVALID : mrd_err_of(st->err);
        mrd_text_set(part->message, sizeof(part->message), st->message);
        break;
    default:
        break;
    }
    if (part->state != MRD_PART_LOST)
        part->lost.ns = 0;
}

/* Takes the size and the time range of the events in the memory of the node's flight recorder. */
static void
take_held(mrd_part *part, const mrd_node *node, const Mrd__SessionStatus *st)
{
    mrd_local_ns first = { mrd_time_checked(st->recorder_first_ns) };
    bool is_sane = first.ns > 0 && first.ns <= node->counted.ns;

    part->held = (mrd_held){ mrd_count_checked(st->recorder_bytes),
                             is_sane ? node->counted.ns - first.ns : 0 };
}

/* Returns true if the node began to record earlier than its agent reports. A restarted agent
 * without a saved state reports the time at which it joined the session again. But events that the
 * previous agent did not read are still in the rings, and lost events are counted. So the earlier
 * time stays valid. */
static bool
began_before(const mrd_part *part, const mrd_node *node, const Mrd__SessionStatus *st)
{
    return part->started.ns != 0 && part->started.ns < st->started_local_ns &&
           strcmp(part->boot_id, node->boot_id) == 0;
}

void
mrd_part_heartbeat(mrd_part *part, const mrd_node *node, const Mrd__SessionStatus *st,
                   bool with_profiles)
{
    /* the record cannot be complete up to a time in the node's future */
    int64_t complete = mrd_time_checked(st->complete_local_ns);
    bool same_boot = strcmp(part->boot_id, node->boot_id) == 0;
    mrd_part_epoch *epoch;

    if (node->counted.ns != 0 && complete > node->counted.ns)
        complete = node->counted.ns;
    /* the agent now supports changes, because it replaced an agent that did not */
    if (st->revision > 0 && part->unchangeable != 0) {
        part->unchangeable = 0;
        mrd_text_set(part->message, sizeof(part->message), "");
    }
    if (st->revision > part->revision)
        part->revision = st->revision;
    mrd_part_count(part, node->epoch, same_boot ? node->counted : (mrd_local_ns){ 0 },
                   st->counters);
    if (st->started_local_ns != 0 && !began_before(part, node, st)) {
        part->started.ns = mrd_time_checked(st->started_local_ns);
        part->start_bound =
            mrd_time_sane(st->start_bound_ns) && st->start_bound_ns >= 0 ? st->start_bound_ns : -1;
    }
    if (st->stopped_local_ns != 0)
        part->stopped.ns = mrd_time_checked(st->stopped_local_ns);
    if (complete > part->complete.ns)
        part->complete.ns = complete;
    part->clock = node->clock;
    if (node->has_reading) { /* if there is no reading, the one from the manifest stays */
        part->has_reading = true;
        part->reading = node->reading;
    }
    take_held(part, node, st);
    if (with_profiles)
        take_profiles(part, st);
    if (st->models != NULL) {
        mrd_node_models *models = mrd_node_models_new(st->models, part->local, part->wall);

        if (models != NULL)
            mrd_node_models_unref(part->models);
        part->models = models != NULL ? models : part->models;
    }
    if (st->last_seq > 0 && (epoch = mrd_part_epoch_of(part, node->epoch)) != NULL &&
        st->last_seq > epoch->end)
        epoch->end = st->last_seq;
    take_phase(part, st);
}
