"""What both engines are made of: tables and their sweep after reset, doorbells, regions, and the words, widths and
C-header lines that software shares."""
