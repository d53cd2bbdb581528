/*
 * capture/control.h - what set_config decided. Internal.
 */
#ifndef MRD_CAPTURE_CONTROL_H
#define MRD_CAPTURE_CONTROL_H

#include <stdbool.h>

/* profile_memory: counters in bytes are recorded. */
bool mrd_config_memory(void);

#endif
