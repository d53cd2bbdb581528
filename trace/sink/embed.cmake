# cmake -D FILE=report.css -D OUT=x.c -P embed.cmake: the file as a C text.
file(READ ${FILE} text HEX)
string(REGEX REPLACE "(..)" "\\\\x\\1" text "${text}")
# Short strings: a text of C has a largest length that all compilers take.
string(REGEX REPLACE "((\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..))" "\\1\"\n    \"" text "${text}")
file(WRITE ${OUT} "/* Made of trace/sink/report.css by trace/sink/embed.cmake. */\n#include \"trace/sink/report/report_style.h\"\n\nconst char mrd_report_style[] =\n    \"${text}\";\n")
