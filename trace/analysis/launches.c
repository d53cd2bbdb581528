/* trace/analysis/launches.c - finds the time of a launch by the id of its flow arrow. The latest
 * MRD_LAUNCHES launches lie in a ring buffer. A map finds the entry of an arrow. */
#include "trace/analysis/launches.h"

#include <stdlib.h>

#include "base/map.h"

typedef struct {
    uint64_t flow;
    mrd_ev_ns ts;
} launch;

struct mrd_launches {
    mrd_map places; /* id of a launch's flow arrow -> index in v */
    uint64_t noted;
    launch v[MRD_LAUNCHES];
};

mrd_launches *
mrd_launches_new(void)
{
    /* calloc, because pages that are never used take no memory */
    return calloc(1, sizeof(mrd_launches));
}

void
mrd_launches_free(mrd_launches *launches)
{
    if (launches == NULL)
        return;
    mrd_map_fini(&launches->places);
    free(launches);
}

static mrd_map_key
key_of(uint64_t flow)
{
    return (mrd_map_key){ .a = flow };
}

/* Removes the map entry of the launch that is about to be overwritten. The entry stays if it points
 * to a newer launch with the same arrow id. */
static void
forget(mrd_launches *launches, uint32_t place)
{
    mrd_map_key key = key_of(launches->v[place].flow);

    if (launches->noted >= MRD_LAUNCHES && mrd_map_get(&launches->places, key) == place)
        mrd_map_remove(&launches->places, key);
}

mrd_err
mrd_launches_note(mrd_launches *launches, uint64_t flow, mrd_ev_ns ts)
{
    uint32_t place = (uint32_t) (launches->noted % MRD_LAUNCHES);

    forget(launches, place);
    launches->v[place] = (launch){ flow, ts };
    launches->noted++;
    return mrd_map_put(&launches->places, key_of(flow), place);
}

const mrd_ev_ns *
mrd_launches_find(const mrd_launches *launches, uint64_t flow)
{
    uint32_t place = mrd_map_get(&launches->places, key_of(flow));

    return place == MRD_MAP_NONE ? NULL : &launches->v[place].ts;
}
