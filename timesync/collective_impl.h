/* timesync/collective_impl.h - the inside of a match. Internal to timesync/. */
#ifndef MRD_TIMESYNC_COLLECTIVE_IMPL_H
#define MRD_TIMESYNC_COLLECTIVE_IMPL_H

#include "timesync/collective.h"

struct mrd_coll_match {
    size_t process_count, count, left_out;
    size_t obs_n;
    mrd_coll_obs *obs; /* collective after collective */
    size_t *first;     /* count + 1 */
};

#endif
