# Turns a file into a C array: cmake -DINPUT=page.html -DOUTPUT=page.c -DNAME=page_html -P embed.cmake
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "/* Made from ${NAME}'s source by streams/embed.cmake. */
#include <stddef.h>
extern const unsigned char ${NAME}[];
extern const size_t ${NAME}_size;
const unsigned char ${NAME}[] = {
${bytes}
};
const size_t ${NAME}_size = sizeof ${NAME};
")
