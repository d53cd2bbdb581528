/*
 * capture/settings.h - reads and checks the environment variables that settings.def lists.
 * Internal.
 */
#ifndef MRD_CAPTURE_SETTINGS_H
#define MRD_CAPTURE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MRD_SETTING_TEXT 3001

typedef struct {
    int64_t enable;  /* 0 or 1; -1 if unset */
    int64_t sources; /* MRD_CAP_ bits; -1 if unset */
    int64_t ring_size, ring_dict, ring_total, aggregate, neffs;
    char ring_dir[MRD_SETTING_TEXT], clock[MRD_SETTING_TEXT], profile_file[MRD_SETTING_TEXT];
    char sys_dir[MRD_SETTING_TEXT], proc_dir[MRD_SETTING_TEXT], device_profiles[MRD_SETTING_TEXT];
    uint32_t errors; /* number of invalid values */
    char error[256]; /* a message about the first error */
} mrd_settings;

/* Fills *settings from the environment of the process. Allocates nothing. */
void mrd_settings_read(mrd_settings *settings);

#endif
