"""Simulation of the collectives accelerator."""
