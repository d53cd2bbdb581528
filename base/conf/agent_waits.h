/*
 * base/conf/agent_waits.h - the waiting times of an agent as constants. base/conf/agent_waits.def
 * has the table with the reason for each.
 */
#ifndef MRD_BASE_CONF_AGENT_WAITS_H
#define MRD_BASE_CONF_AGENT_WAITS_H

#include "base/clock.h"

#define MRD_WAIT(ident, number, unit, reason)                                                      \
    static const mrd_dur_ns MRD_WAIT_##ident = (number) *MRD_##unit;
#include "base/conf/agent_waits.def"
#undef MRD_WAIT

#endif
