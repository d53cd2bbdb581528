/*
 * tests/sim/planted/planted.h - bugs in the simulation's copy of the product. aggregator.bugs and agent.bugs
 * describe them, and planted.py makes the copies and planted.def of these tables.
 */
#ifndef MRD_TESTS_SIM_PLANTED_PLANTED_H
#define MRD_TESTS_SIM_PLANTED_PLANTED_H

typedef enum {
    MRD_PLANT_NONE,
#define PLANT(bug, text) MRD_PLANT_##bug,
#include "planted.def"
#undef PLANT
    MRD_PLANTS
} mrd_plant;

/* the planted bug (mrd_plant) that is active in the copies of the code */
extern unsigned mrd_planted;

#endif
