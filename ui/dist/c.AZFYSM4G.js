import{a,b,c,d}from"./c.ZTJMSY25.js";import"./c.KHQEP2DK.js";import"./c.L5IBBXPZ.js";export{b as functions,a as keywords,d as sqlComplete,c as types};
