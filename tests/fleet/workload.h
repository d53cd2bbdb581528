/*
 * tests/fleet/workload.h - one execution of a model as 224 events. Their mix, nesting and durations
 * come from a real Trainium2 run. They include 98 collectives, 99 freed tensors, 17 copies to the
 * device and two busy cores.
 */
#ifndef MRD_TESTS_FLEET_WORKLOAD_H
#define MRD_TESTS_FLEET_WORKLOAD_H

#include "trace/model/catalog.h"
#include "trace/model/event.h"

#define WORK_EVENTS 224u
#define WORK_LENGTH 11450000 /* ns */
#define WORK_TRACKS 5

/* Position of an event in the execution. */
typedef struct {
    int64_t at_ns, dur_ns; /* at_ns from the beginning */
    unsigned name, track;
    bool instant, sized;
} work_event;

typedef struct {
    mrd_catalog *cat;
    mrd_proc_id process;
    mrd_track_id tracks[WORK_TRACKS];
    mrd_sid names[16], key;
} work_catalog;

/* The table, made once. */
const work_event *work_events(void);
/* Fills *c. Returns false if memory runs out. */
bool work_catalog_open(work_catalog *c, const char *instance_id);
/* Makes event k of the execution that ended at end_ns. *arg stores its argument. */
void work_make(const work_catalog *c, uint64_t execution, unsigned k, int64_t end_ns, mrd_arg *arg,
               mrd_event *ret_event);

#endif
