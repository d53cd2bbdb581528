/* hw/hw_int.h - internals of mrd_hw, for hw.c and session.c only. */
#ifndef MRD_HW_HW_INT_H
#define MRD_HW_HW_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "hw/hw.h"

#define MRD_HW_UNITS 8

typedef struct {
    const char *name;
    const mrd_hw_backend *ops; /* the backend's functions; NULL if the backend is absent */
    void *state;
    char text[256];
    /* guards `state` against helper threads of sessions; no other lock is taken while it is held */
    pthread_mutex_t lock;
} mrd_hw_unit;

struct mrd_hw {
    /* one reference for the owner, for each session and for each helper thread */
    _Atomic unsigned refs;
    size_t n;
    mrd_hw_unit at[MRD_HW_UNITS];
};

mrd_hw *mrd_hw_ref(mrd_hw *hw);

#endif
