// SPDX-License-Identifier: Apache-2.0
// Models of the ECP5 cells that Yosys's own library only declares, for simulation of a board's top and of its netlist.
// Lattice FPGA-TN-02204 (memory), FPGA-TN-02200 (PLL).

`define NO_INCLUDES  // Yosys's models, read after these, then leave out cells that synthesis never makes.

// A true dual-port memory of 2,048 rows of 9 bits, or of 8 where a port has 1, 2 or 4. A row that one port reads while
// the other writes it comes out inverted: what is undefined must not be right by chance.
module DP16KD #(
  parameter DATA_WIDTH_A = 18, parameter DATA_WIDTH_B = 18,
  parameter REGMODE_A = "NOREG", parameter REGMODE_B = "NOREG",
  parameter RESETMODE = "SYNC", parameter ASYNC_RESET_RELEASE = "SYNC",
  parameter CSDECODE_A = "0b000", parameter CSDECODE_B = "0b000",
  parameter WRITEMODE_A = "NORMAL", parameter WRITEMODE_B = "NORMAL",
  parameter CLKAMUX = "CLKA", parameter CLKBMUX = "CLKB", parameter GSR = "ENABLED",
  parameter [319:0] INITVAL_00 = 0, parameter [319:0] INITVAL_01 = 0, parameter [319:0] INITVAL_02 = 0, parameter [319:0] INITVAL_03 = 0,
  parameter [319:0] INITVAL_04 = 0, parameter [319:0] INITVAL_05 = 0, parameter [319:0] INITVAL_06 = 0, parameter [319:0] INITVAL_07 = 0,
  parameter [319:0] INITVAL_08 = 0, parameter [319:0] INITVAL_09 = 0, parameter [319:0] INITVAL_0A = 0, parameter [319:0] INITVAL_0B = 0,
  parameter [319:0] INITVAL_0C = 0, parameter [319:0] INITVAL_0D = 0, parameter [319:0] INITVAL_0E = 0, parameter [319:0] INITVAL_0F = 0,
  parameter [319:0] INITVAL_10 = 0, parameter [319:0] INITVAL_11 = 0, parameter [319:0] INITVAL_12 = 0, parameter [319:0] INITVAL_13 = 0,
  parameter [319:0] INITVAL_14 = 0, parameter [319:0] INITVAL_15 = 0, parameter [319:0] INITVAL_16 = 0, parameter [319:0] INITVAL_17 = 0,
  parameter [319:0] INITVAL_18 = 0, parameter [319:0] INITVAL_19 = 0, parameter [319:0] INITVAL_1A = 0, parameter [319:0] INITVAL_1B = 0,
  parameter [319:0] INITVAL_1C = 0, parameter [319:0] INITVAL_1D = 0, parameter [319:0] INITVAL_1E = 0, parameter [319:0] INITVAL_1F = 0,
  parameter [319:0] INITVAL_20 = 0, parameter [319:0] INITVAL_21 = 0, parameter [319:0] INITVAL_22 = 0, parameter [319:0] INITVAL_23 = 0,
  parameter [319:0] INITVAL_24 = 0, parameter [319:0] INITVAL_25 = 0, parameter [319:0] INITVAL_26 = 0, parameter [319:0] INITVAL_27 = 0,
  parameter [319:0] INITVAL_28 = 0, parameter [319:0] INITVAL_29 = 0, parameter [319:0] INITVAL_2A = 0, parameter [319:0] INITVAL_2B = 0,
  parameter [319:0] INITVAL_2C = 0, parameter [319:0] INITVAL_2D = 0, parameter [319:0] INITVAL_2E = 0, parameter [319:0] INITVAL_2F = 0,
  parameter [319:0] INITVAL_30 = 0, parameter [319:0] INITVAL_31 = 0, parameter [319:0] INITVAL_32 = 0, parameter [319:0] INITVAL_33 = 0,
  parameter [319:0] INITVAL_34 = 0, parameter [319:0] INITVAL_35 = 0, parameter [319:0] INITVAL_36 = 0, parameter [319:0] INITVAL_37 = 0,
  parameter [319:0] INITVAL_38 = 0, parameter [319:0] INITVAL_39 = 0, parameter [319:0] INITVAL_3A = 0, parameter [319:0] INITVAL_3B = 0,
  parameter [319:0] INITVAL_3C = 0, parameter [319:0] INITVAL_3D = 0, parameter [319:0] INITVAL_3E = 0, parameter [319:0] INITVAL_3F = 0
) (
  input DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0,
  input ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0,
  input CEA, OCEA, CLKA, WEA, RSTA, CSA2, CSA1, CSA0,
  output DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0,
  input DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0,
  input ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0,
  input CEB, OCEB, CLKB, WEB, RSTB, CSB2, CSB1, CSB0,
  output DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0
);
  localparam [20479:0] INITIAL = {
    INITVAL_3F, INITVAL_3E, INITVAL_3D, INITVAL_3C, INITVAL_3B, INITVAL_3A, INITVAL_39, INITVAL_38,
    INITVAL_37, INITVAL_36, INITVAL_35, INITVAL_34, INITVAL_33, INITVAL_32, INITVAL_31, INITVAL_30,
    INITVAL_2F, INITVAL_2E, INITVAL_2D, INITVAL_2C, INITVAL_2B, INITVAL_2A, INITVAL_29, INITVAL_28,
    INITVAL_27, INITVAL_26, INITVAL_25, INITVAL_24, INITVAL_23, INITVAL_22, INITVAL_21, INITVAL_20,
    INITVAL_1F, INITVAL_1E, INITVAL_1D, INITVAL_1C, INITVAL_1B, INITVAL_1A, INITVAL_19, INITVAL_18,
    INITVAL_17, INITVAL_16, INITVAL_15, INITVAL_14, INITVAL_13, INITVAL_12, INITVAL_11, INITVAL_10,
    INITVAL_0F, INITVAL_0E, INITVAL_0D, INITVAL_0C, INITVAL_0B, INITVAL_0A, INITVAL_09, INITVAL_08,
    INITVAL_07, INITVAL_06, INITVAL_05, INITVAL_04, INITVAL_03, INITVAL_02, INITVAL_01, INITVAL_00
  };

  reg [8:0] rows [0:2047];
  integer i;
  initial begin
    if (REGMODE_A != "NOREG" || REGMODE_B != "NOREG" || CSDECODE_A != "0b000" || CSDECODE_B != "0b000"
        || CLKAMUX != "CLKA" || CLKBMUX != "CLKB") begin
      $display("DP16KD: this mode has no model");
      $finish;
    end
    for (i = 0; i < 2048; i = i + 1) rows[i] = INITIAL[20 * (i / 2) + 9 * (i % 2) +: 9];
  end

  // With 36 bits, the lower half of a word is that of port A and the upper that of port B.
  wire [35:0] write_a = {DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3,
                         DIB2, DIB1, DIB0, DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6,
                         DIA5, DIA4, DIA3, DIA2, DIA1, DIA0};
  wire [17:0] write_b = write_a[35:18];
  wire [13:0] at_a = {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0};
  wire [13:0] at_b = {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0};

  // First row of an access, and how many there are.
  function [10:0] first(input [13:0] at, input integer width);
    first = width == 36 ? {at[13:5], 2'b00} : width == 18 ? {at[13:4], 1'b0} : at[13:3];
  endfunction
  function integer count(input integer width);
    count = width == 36 ? 4 : width == 18 ? 2 : 1;
  endfunction
  // Bits of a row that a write changes, and where its data goes.
  function [8:0] mask(input [13:0] at, input integer width);
    mask = width == 1 ? 9'd1 << at[2:0] : width == 2 ? 9'd3 << {at[2:1], 1'b0} : width == 4 ? 9'd15 << {at[2], 2'b00}
         : 9'h1FF;
  endfunction
  function [2:0] shift(input [13:0] at, input integer width);
    shift = width == 1 ? at[2:0] : width == 2 ? {at[2:1], 1'b0} : width == 4 ? {at[2], 2'b00} : 3'd0;
  endfunction

  wire on_a = CEA & ~CSA0 & ~CSA1 & ~CSA2, on_b = CEB & ~CSB0 & ~CSB1 & ~CSB2;
  wire [3:0] bytes_a = DATA_WIDTH_A == 36 ? at_a[3:0] : DATA_WIDTH_A == 18 ? {2'b00, at_a[1:0]} : 4'b0001;
  wire [3:0] bytes_b = DATA_WIDTH_B == 18 ? {2'b00, at_b[1:0]} : 4'b0001;
  wire [10:0] first_a = first(at_a, DATA_WIDTH_A), first_b = first(at_b, DATA_WIDTH_B);

  reg [35:0] found_a, found_b, read_a, read_b;
  integer n, k;
  always @(*) begin
    found_a = 36'd0;
    found_b = 36'd0;
    for (n = 0; n < count(DATA_WIDTH_A); n = n + 1) found_a[9 * n +: 9] = rows[first_a + n[10:0]];
    for (n = 0; n < count(DATA_WIDTH_B); n = n + 1) found_b[9 * n +: 9] = rows[first_b + n[10:0]];
    for (n = 0; n < count(DATA_WIDTH_A); n = n + 1)
      for (k = 0; k < count(DATA_WIDTH_B); k = k + 1)
        if (first_a + n[10:0] == first_b + k[10:0]) begin
          if (on_b & WEB & bytes_b[k] & ~WEA) found_a[9 * n +: 9] = ~found_a[9 * n +: 9];
          if (on_a & WEA & bytes_a[n] & ~WEB) found_b[9 * k +: 9] = ~found_b[9 * k +: 9];
        end
    found_a = found_a >> shift(at_a, DATA_WIDTH_A);
    found_b = found_b >> shift(at_b, DATA_WIDTH_B);
  end

  // Both ports have one clock here; of two, each would need a process of its own.
  always @(posedge CLKA) begin
    if (on_a & (~WEA | WRITEMODE_A == "READBEFOREWRITE")) read_a <= found_a;
    else if (on_a & WEA & WRITEMODE_A == "WRITETHROUGH") read_a <= write_a;
    if (on_b & (~WEB | WRITEMODE_B == "READBEFOREWRITE")) read_b <= found_b;
    else if (on_b & WEB & WRITEMODE_B == "WRITETHROUGH") read_b <= {18'd0, write_b};
    if (RSTA) read_a <= 36'd0;
    if (RSTB) read_b <= 36'd0;
    if (on_a & WEA)
      for (i = 0; i < count(DATA_WIDTH_A); i = i + 1)
        if (bytes_a[i])
          rows[first_a + i[10:0]] <= (rows[first_a + i[10:0]] & ~mask(at_a, DATA_WIDTH_A))
            | ((write_a[9 * i +: 9] << shift(at_a, DATA_WIDTH_A)) & mask(at_a, DATA_WIDTH_A));
    if (on_b & WEB)
      for (i = 0; i < count(DATA_WIDTH_B); i = i + 1)
        if (bytes_b[i])
          rows[first_b + i[10:0]] <= (rows[first_b + i[10:0]] & ~mask(at_b, DATA_WIDTH_B))
            | ((write_a[18 + 9 * i +: 9] << shift(at_b, DATA_WIDTH_B)) & mask(at_b, DATA_WIDTH_B));
  end

  assign {DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0,
          DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0}
    = DATA_WIDTH_B == 36 ? read_b : {read_b[17:0], read_a[17:0]};
endmodule

// Gives its input on, so that a testbench drives the engines' clock; locked after some cycles.
module EHXPLLL #(
  parameter CLKI_DIV = 1, parameter CLKFB_DIV = 1, parameter CLKOP_DIV = 1, parameter CLKOP_ENABLE = "ENABLED",
  parameter CLKOP_CPHASE = 0, parameter FEEDBK_PATH = "CLKOP"
) (
  input CLKI, CLKFB, RST, STDBY, ENCLKOP, PLLWAKESYNC, PHASESEL0, PHASESEL1, PHASEDIR, PHASESTEP, PHASELOADREG,
  output CLKOP, LOCK
);
  reg [4:0] cycles = 5'd0;
  always @(posedge CLKI) if (~cycles[4]) cycles <= cycles + 5'd1;
  assign CLKOP = CLKI;
  assign LOCK = cycles[4];
endmodule

// A clock that is let through or not, never in the middle of its high half.
module DCCA (input CLKI, CE, output CLKO);
  reg on = 1'b0;
  always_latch if (~CLKI) on = CE;
  assign CLKO = CLKI & on;
endmodule
