import{a,b,c,d}from"./c.ZTJMSY25.js";import"./c.Y7AQBIVH.js";import"./c.I2YF5GO7.js";export{b as functions,a as keywords,d as sqlComplete,c as types};
