/*
 * proto/clock_reading.h - converts a reading of the node's clocks (hw/hostclock.h) to the protobuf
 * message that is sent and stored.
 *
 * The struct holds pointers to its own members, so do not copy or move the struct after filling it.
 */
#ifndef MRD_PROTO_CLOCK_READING_H
#define MRD_PROTO_CLOCK_READING_H

#include "hw/hostclock.h"
#include "proto/wire.h"

/* A reading as a protobuf message, with the memory for all its optional parts. */
typedef struct {
    Mrd__ClockReading m;
    Mrd__ClockTimex timex;
    Mrd__ClockBound bound;
    Mrd__ClockPhc phc;
    Mrd__ClockVm vm;
    char phc_name[MRD_HOSTCLOCK_NAME];
} mrd_clock_reading;

void mrd_clock_reading_fill(mrd_clock_reading *to, const mrd_hostclock_reading *from);

#endif
