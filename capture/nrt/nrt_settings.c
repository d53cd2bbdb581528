#include "capture/nrt/nrt_settings.h"

#include <limits.h>
#include <string.h>

#include "capture/api/record.h"
#include "capture/nrt/nrt_file.h"

/* Parses a settings file and overwrites `text`. Returns false if the text is not a settings file.
 * Ignores unknown lines, which a newer agent may write. */
static bool
nrt_settings_parse(char *text, mrd_nrt_settings *settings)
{
    char *save = NULL;

    *settings = (mrd_nrt_settings){ .any_core = true, .recording = -1 };
    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        char *eq = strchr(line, '=');

        if (eq == NULL)
            return false;
        *eq++ = '\0';
        if (strcmp(line, "trace_cores") == 0) {
            if (!mrd_control_cores(eq, &settings->any_core, settings->core))
                return false;
        } else if (strcmp(line, "trace_types") == 0) {
            if (strlen(eq) >= sizeof(settings->types))
                return false;
            memcpy(settings->types, eq, strlen(eq) + 1);
        } else if (strcmp(line, "recording") == 0) {
            settings->recording = strcmp(eq, "on") == 0 ? 1 : strcmp(eq, "off") == 0 ? 0 : -1;
        }
    }
    return true;
}

bool
mrd_nrt_settings_poll(mrd_nrt_settings_seen *seen, mrd_nrt_settings *settings)
{
    mrd_nrt_settings nrt_settings = { .any_core = true, .recording = -1 };
    char path[PATH_MAX], text[MRD_CONTROL_MAX + 1];

    mrd_nrt_file_path(mrd_ring_settings_print, path);
    if (!mrd_nrt_file_changed(path, &seen->last))
        return false;
    if (seen->last.st_ino != 0 && (mrd_nrt_file_read(path, text) != MRD_NRT_FILE_READ ||
                                   !nrt_settings_parse(text, &nrt_settings))) {
        mrd_rec_notice("a settings file that is not the agent's, or not understood, was ignored",
                       NULL, 0);
        return false;
    }
    if (memcmp(&nrt_settings, settings, sizeof(nrt_settings)) == 0)
        return false;
    memcpy(settings, &nrt_settings, sizeof(nrt_settings));
    return true;
}
