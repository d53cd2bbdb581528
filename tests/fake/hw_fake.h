/*
 * tests/fake/hw_fake.h - a scripted backend of counters.
 *
 * The script has one statement per line. '#' starts a comment.
 *   counter NAME UNIT V1 V2 ...    UNIT is count, bytes, ns or percent, with '+' if cumulative.
 *                                  The k-th sampling gives Vk, and later ones give the last
 *                                  value. '?' is unknown. A NAME that starts with
 *                                  "fake<D>.core<C>." sets device and core.
 *   stall K MS                     the K-th sampling (from 1) takes MS milliseconds
 *   die K                          the device fails at the K-th sampling
 */
#ifndef MRD_TESTS_FAKE_HW_FAKE_H
#define MRD_TESTS_FAKE_HW_FAKE_H

#include "hw/hw.h"

#define MRD_HW_FAKE_VALUES 64 /* maximum values of a counter */

extern const mrd_hw_backend mrd_hw_backend_fake;
/* The script of the next backend that is opened. NULL means that the backend is absent. */
extern const char *mrd_hw_fake_script;

#endif
