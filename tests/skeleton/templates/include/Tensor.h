#pragma once
// The same in every build.
double at_add(double a, double b);
