/* timesync/smooth_impl.h - the two-state filter, shared with device clocks. Internal to timesync/.
 */
#ifndef MRD_TIMESYNC_SMOOTH_IMPL_H
#define MRD_TIMESYNC_SMOOTH_IMPL_H

#include "timesync/smooth.h"

/* dt seconds ahead; the rate walks by w ppb/s. */
void mrd_kalman_predict(mrd_kalman *k, double dt, double w);
void mrd_kalman_update(mrd_kalman *k, double z, double sigma);
/* One step of the Rauch-Tung-Striebel recursion: filtered here, predicted and smoothed one step on.
 */
mrd_kalman mrd_kalman_back(const mrd_kalman *filtered, const mrd_kalman *predicted,
                           const mrd_kalman *smoothed, double dt);

#endif
